"""Is this deployment in order: what was read becomes verdicts. Pure; `store/checkup.py` reads."""
