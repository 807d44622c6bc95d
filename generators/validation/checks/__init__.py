"""What is checked of a task once it can be played: leaks, statement, strength of the tests, duplicates, stability.

Each check is one module that takes a finished Task with its trees, whichever generator proposed it, so that ``etude
generate`` and ``etude validate`` run the same code. ``exercise`` reads from a row what the solution changes,
``wrong_solutions/`` makes and runs wrong solutions, ``final_checks`` is the order of the checks for a new task.
"""
