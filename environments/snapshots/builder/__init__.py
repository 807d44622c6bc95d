"""Building a Snapshot from a Source."""
