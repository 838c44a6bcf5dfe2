"""What is known, drawn as a picture of one moment: rows, flow, shares, timeline, alerts. Pure."""
