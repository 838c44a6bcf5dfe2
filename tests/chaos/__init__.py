"""The worst day on demand: real nodes and a real replica set under a seeded schedule of faults, and
the verdict."""
