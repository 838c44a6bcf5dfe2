"""The queues we are compared with: one script each, run by `python -m` inside a throw-away venv of
its own."""
