"""The keeper process, its client and its drivers."""
