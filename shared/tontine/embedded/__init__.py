"""The MongoDB that comes along: found, started, kept and stopped by whoever uses it."""
