"""Do the documents keep the protocol's invariants: `read.py` asks the store, and what was read
becomes findings."""
