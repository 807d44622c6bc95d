"""Held-out calls: calls that no test makes, proposed from those of the tests.

``inputs`` proposes single calls and ``sequences`` the calls of a whole test with other data; ``selection`` tries them
on the task's own solution and on mutants of it, and keeps the best. The other modules make the data: ``variation``
changes plain values, ``value_objects`` objects, ``parameters`` adds optional arguments, ``literals`` collects texts,
and ``domain`` keeps calls within what the tests show.
"""
