"""Adapters of at most 60 lines for frameworks whose loop plays the episodes; docs/frameworks.md has recipes."""
