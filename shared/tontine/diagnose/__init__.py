"""What is wrong, and why: `why` of one job, `doctor` of a database, `audit` of the protocol.

Each has a `read.py` that asks the store; everything else in here is pure.
"""
