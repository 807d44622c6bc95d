"""What is checked of a task once it plays: leaks, adequacy of the statement, strength of the verifier, duplicates.

Each check is one module that takes a finished Task (whoever made it) with its Materials, so that ``etude generate`` and
``etude validate`` run the same code.
"""
