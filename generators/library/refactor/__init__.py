"""Refactoring: the package keeps its behaviour, and its code gets another shape.

``symbols`` finds what can be renamed or moved and every place that names it, ``renaming`` and ``moving`` write the
solution, ``renamed_tests`` rewrites the tests that decide.
"""
