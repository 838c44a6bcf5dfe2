"""(4) Run: the worker process, which has tasks and no database connection."""
