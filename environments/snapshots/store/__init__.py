"""Snapshots on disk: ``cache`` and ``trees``, ``patches`` and ``workspace``, and archives (``pack``, ``unpack``)."""
