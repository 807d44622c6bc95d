"""The generators, by family."""
