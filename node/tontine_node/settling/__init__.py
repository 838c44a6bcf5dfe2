"""How what ran reaches the store: outcomes, lines and progress; and what the dead left behind."""
