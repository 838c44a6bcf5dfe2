"""Do the documents keep the protocol's invariants: what was read becomes findings. Pure; `store/ledger.py` reads."""
