"""Readers of logs, one module per format: each has a ``FORMAT`` (``record.LogFormat``), registered in ``logs``."""
