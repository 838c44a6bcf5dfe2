"""What each pane shows: records in, lines of text out. Pure, and tested without a terminal."""
