"""The master's side of running: worker processes, the orders they get and the reports they give. No
database."""
