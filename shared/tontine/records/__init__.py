"""What the documents say: each kind read once, tolerantly, because any driver may have written it.
Pure."""
