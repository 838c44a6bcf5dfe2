"""The observer: it reads, shows and alarms, and nothing depends on it."""
