"""What fills the terminal: the overview, and what opens over it."""
