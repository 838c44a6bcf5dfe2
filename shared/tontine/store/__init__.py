"""MongoDB access. Every operation is a generator of calls, so sync and async callers share one
logic (see call.py)."""
