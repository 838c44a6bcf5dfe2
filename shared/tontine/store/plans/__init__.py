"""Plans in the store: accepted, released step by step, licensed, advanced, ended, removed."""
