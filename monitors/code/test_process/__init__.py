"""What does the added code do to the process that tests it? Frames, pytest, exits, threads, endless work."""
