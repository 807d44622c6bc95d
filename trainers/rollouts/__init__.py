"""Rollouts over the wire."""
