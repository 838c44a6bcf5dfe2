"""What is known: jobs, nodes, rosters, counts and curves, now and back in time. Pure."""
