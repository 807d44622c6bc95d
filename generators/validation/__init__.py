"""Validation: from a Candidate to a Task."""
