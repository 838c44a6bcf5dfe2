"""What is known: jobs, nodes, rosters, counts and curves, now and back in time, and how news find their places. Pure."""
