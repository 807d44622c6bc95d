"""Programs of the two sandboxes, one with the tests and one with the solution.

``boundary`` runs beside the tests in place of the examined functions: it records their calls, or answers them.
``solution_worker`` runs recorded calls on a solution. ``programs`` puts the texts of both together; the other modules
are parts of one or both. The texts run on Python 3.8 and later without this package.
"""
