"""Grading by recorded calls: a solution answers them in a sandbox without tests, and the host compares."""
