"""Sources: from a name to a tree of files."""
