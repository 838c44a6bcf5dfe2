"""Plans: accepted, carried on after every settlement, looked at, removed, by whoever is there."""
