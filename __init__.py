"""Etude: real repositories become practice pieces for coding agents."""

__version__ = "0.1.0"
