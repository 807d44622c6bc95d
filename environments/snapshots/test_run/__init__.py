"""Running test suites, and the baseline of a Snapshot."""
