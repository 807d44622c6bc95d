"""Tools for reading and editing Python sources."""
