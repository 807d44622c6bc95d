"""The built-in faults, one file each."""
