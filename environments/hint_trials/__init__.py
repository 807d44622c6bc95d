"""Hints are tried: episodes of a run are played on from before an error turn, with a hint and without."""
