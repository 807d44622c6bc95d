"""A hint that gives the solution or a hidden test away is caught, and plain advice is not."""

from __future__ import annotations

import pytest

from etude.hints.write.hint_leaks import reveals

SOLUTION = '''diff --git a/src/tally/core.py b/src/tally/core.py
--- a/src/tally/core.py
+++ b/src/tally/core.py
@@ -6,5 +6,9 @@
 def total(values):
-    raise NotImplementedError
+    """Adds up whatever comes out of the iterable."""
+    running_sum = 0
+    for value in values:
+        result += value
+    raise OverflowError("the values do not fit")
'''
HIDDEN = """--- /dev/null
+++ b/tests/test_hidden.py
@@ -0,0 +1,3 @@
+def test_total_of_nothing():
+    assert total([]) == 0
"""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Use `result += value` in the loop.", "result += value"),
        ("Write result+=value", "result += value"),
        ("The variable is called running_sum.", "running_sum"),
        ("Its docstring: adds up. Adds up whatever comes out of", "Adds up whatever comes out"),
        ("Raise an error that says 'the values do not fit'.", "the values do not fit"),
        ("tests/test_hidden.py checks it", "test_hidden"),
        ("see test_total_of_nothing", "test_total_of_nothing"),
        ("It checks that total([]) == 0: `assert total([]) == 0`", "assert total([]) == 0"),
    ],
)
def test_what_gives_it_away_is_named(text: str, word: str) -> None:
    assert word in (reveals(text, [SOLUTION, HIDDEN]) or "")


@pytest.mark.parametrize(
    "text",
    [
        "Reminder: the available tools are bash, read_file, submit. There is no tool 'total'; use bash.",
        "There is no `src/core.py`; the nearest path is src/tally/core.py.",
        "`NotImplementedError` comes from line 7 of `src/tally/core.py` (in total).",
        "Read the values before you add them up; the result must fit.",
        "for value in the list, call the tool once",
    ],
)
def test_advice_in_words_that_anyone_uses_gives_nothing_away(text: str) -> None:
    assert reveals(text, [SOLUTION, HIDDEN]) is None


def test_what_the_agent_may_know_can_be_said() -> None:
    text = "running_sum is the name to use"
    assert reveals(text, [SOLUTION], ["Call the variable running_sum."]) is None
    assert reveals(text, [SOLUTION]) == "running_sum"


def test_ids_of_hidden_tests_are_secrets_too() -> None:
    assert reveals("Make test_many pass.", ["tests/test_hidden.py::TestTotal::test_many"]) == "test_many"


def test_source_as_it_is_counts_whole() -> None:
    assert reveals("return sum_of(values)", ["def total(values):\n    return sum_of(values)\n"]) is not None
