"""Upkeep: what keeps a package healthy besides its features, such as examples that run, speed and packaging.

Each generator is one module. ``examples`` and ``hidden_tests`` serve ``doctest_repair``.
"""
