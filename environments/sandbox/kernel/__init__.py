"""Linux interfaces that the standard library lacks. Stdlib only."""
