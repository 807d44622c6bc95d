"""Grading by recorded calls: a solution answers calls in a sandbox that holds no test, and its answers are judged.

``docs/grading.md`` explains the idea. Reading order:

1. ``targets``: which functions a task examines, and the *trusted tree*, in which they end at a boundary.
2. ``recorded_calls``: the record in a task's row, which is what is remembered of the calls of its tests.
3. ``values``: how arguments and results are written as JSON (*forms*) and read again. ``forms``: questions about forms.
4. ``processes``: what runs in the sandboxes, beside the tests and beside the solution.
5. ``judging``: how a solution is graded; ``judging.check`` (``failed_tests``) is the entry point.
6. ``recording``: how the record is made when a task is made; ``recording.record`` (``record``) is the entry point.
7. ``held_out``: calls that no test makes, which a record holds beside those of the tests.
8. ``strength``: whether a record decides alone, or a guess, a table or a partial solution would satisfy it too.
"""
