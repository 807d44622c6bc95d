"""A policy behind its chat template."""
