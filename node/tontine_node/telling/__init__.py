"""What a node says: in its log, in its record, in a file for probes. It knows no other part of the
node."""
