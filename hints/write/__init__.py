"""Writing hints for error turns."""
