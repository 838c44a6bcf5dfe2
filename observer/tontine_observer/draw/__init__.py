"""How things look: glyphs, colours, lines of text and small plots. Knows nothing of terminals or
jobs."""
