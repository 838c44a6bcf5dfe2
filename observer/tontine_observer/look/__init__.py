"""How things look: glyphs, colours, lines of text and small plots. Pure; knows nothing of terminals or jobs."""
