"""Held-out calls: calls that no test makes, proposed from those of the tests.

``inputs`` proposes single calls and ``sequences`` the calls of a whole test with other data. ``answered_inputs`` asks
the task's own solution for the answers; ``selection`` tries the calls on mutants of it, and keeps the best. The other
modules make the data: ``variation`` changes plain values, ``near_values`` takes them near a limit, ``constants`` finds
these limits, ``value_objects`` changes objects, ``parameters`` adds optional arguments, ``literals`` collects texts,
and ``domain`` keeps calls within what the tests show.
"""
