"""Attempts that a command makes on its own. Stdlib only, Python 3.8: their text is sent to the sandbox's Python."""
