"""How jobs come to a node: numbered, taken out of the inbox, scheduled, heard of, looked for and
claimed."""
