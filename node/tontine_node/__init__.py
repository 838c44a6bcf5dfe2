"""One node: a small master that runs no user code, and the workers that do."""
