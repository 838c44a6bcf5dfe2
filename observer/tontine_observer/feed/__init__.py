"""Where news come from and requests go: a live store, or a recording in its place."""
