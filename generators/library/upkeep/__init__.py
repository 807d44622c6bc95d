"""Upkeep: what keeps a package healthy besides its features, such as examples that run, speed and packaging.

Each generator is one module: ``doctest_repair`` (with ``examples``), ``perf_regression`` (with ``speed/``) and
``repair_packaging`` (with ``packaging/``). ``hidden_tests`` says where their hidden test files go.
"""
