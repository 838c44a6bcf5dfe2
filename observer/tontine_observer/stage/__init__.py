"""What one user looks at: commands, layout and panes, frame by frame. No terminal in it."""
