"""Runs of a test suite in a sandbox, and the baseline of a Snapshot.

Reading order: ``test_runner`` (host side of a run), ``pytest_plugin`` with its two ``plugin_*`` parts (inside the
sandbox), ``first_run``, ``baseline``, ``impact``.
"""
