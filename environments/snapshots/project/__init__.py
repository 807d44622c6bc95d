"""Detection: a project's metadata, layout, licence, pytest configuration and dependencies, from its own files.

Start with ``metadata`` and ``dependency_guess``.
"""
