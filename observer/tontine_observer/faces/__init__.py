"""The observer without a screen: one snapshot, or a line for every change."""
