"""Knobs of validation for tests that are about something else."""

LIGHT = {"behaviour": False, "controls": False, "mutants": 0}
"""Knobs that leave the slow parts of validation out."""
