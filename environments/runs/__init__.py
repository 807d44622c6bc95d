"""Runs: playing episodes, writing them down, reading them back, scoring them."""
