"""Judging a solution by its answers to recorded calls.

``check`` is the procedure and ``examination`` its sandboxes. ``answers`` and ``equal_data`` compare answers,
``recorded_changes`` and ``recorded_state`` say what the calls of a record change, ``rounds`` chooses what a solution is
asked next, ``separation`` which calls are asked in different sandboxes, and ``allowance`` limits time.
"""
