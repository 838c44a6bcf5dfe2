"""Real nodes on a real MongoDB, in one thread: time, workers and the fate of every store call are
the test's.

`world.py` is the place to start; `history.py` says what must hold after every write.
"""
