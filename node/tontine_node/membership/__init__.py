"""A node among the nodes: its record, its lease and what ends with it, its place in the roster."""
