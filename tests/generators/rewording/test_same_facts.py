"""What a new wording of a statement may change, and what it may not."""

from __future__ import annotations

import pytest

from etude.generators.rewording.same_facts import differences
from etude.models import GeneratorRef, InterfaceItem, Task

STATEMENT = """\
# `KeyError` from `relative('C')`

scales 1.2.0 has a bug that needs a fix. The shortest way to see it:

```pycon
>>> from scales.patterns import relative
>>> relative('C')
KeyError: 'major'
```

It has to return `'A'`. From the documentation:

> The root of the relative scale.

Tests for these behaviours fail at the moment:

- there and back again (2 cases)
- unknown pattern: `ValueError: no such pattern`

Correct the cause in the package's code, not the symptom alone.
"""
GOOD = """\
# `relative('C')` fails with `KeyError`

Since I moved to scales 1.2.0 I cannot use this any more:

```pycon
>>> from scales.patterns import relative
>>> relative('C')
KeyError: 'major'
```

The result ought to be `'A'`; the docs say:

> The root of the relative scale.

Going there and back is broken again, and there is one more thing:

- unknown pattern: `ValueError: no such pattern`

Please fix the cause in the code of the package and not only the symptom.
"""


def task(statement: str = STATEMENT, *interface: InterfaceItem) -> Task:
    reference = GeneratorRef(name="bug_operator", version="1", seed=0)
    return Task(task_id="t", generator=reference, problem_statement=statement, interface=list(interface))


def reasons(text: str, *interface: InterfaceItem) -> dict[str, str]:
    return {refusal.reason: refusal.detail for refusal in differences(task(STATEMENT, *interface), text)}


@pytest.mark.parametrize("text", [STATEMENT, GOOD])
def test_another_wording_of_the_same_facts_is_accepted(text: str) -> None:
    assert reasons(text) == {}


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("to be `'A'`", "to be another one", "it no longer states \"'A'\", spelled exactly so"),
        ("scales 1.2.0", "scales", "it no longer states '1.2.0', spelled exactly so"),
        ("1.2.0", "1.2.01", "1.2.0"),
        (
            "- unknown pattern: `Value",
            "- other pattern: `Value",
            "the item unknown pattern: `ValueError: no such pattern`",
        ),
        ("- unknown pattern: ", "An unknown pattern gives ", "the item unknown pattern"),
        ("back is broken again", "forth is broken", "the item there and back again"),
        ("is broken again", "is broken", "the item there and back again"),
    ],
)
def test_a_text_that_drops_something_is_refused(old: str, new: str, detail: str) -> None:
    assert old in GOOD
    assert detail in reasons(GOOD.replace(old, new))["dropped"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("KeyError: 'major'\n", "KeyError: 'minor'\n"),
        (">>> relative('C')\n", ""),
        ("> The root of", "> A root of"),
        ("```pycon", "```python"),
        ("Please fix", "```python\nshift = 9\n```\n\nPlease fix"),
        ("Please fix", "> Somebody said so.\n\nPlease fix"),
    ],
)
def test_blocks_and_quotations_stay_as_they_are(old: str, new: str) -> None:
    assert old in GOOD
    assert "verbatim" in reasons(GOOD.replace(old, new, 1))


def test_blocks_stay_in_their_order() -> None:
    first, second = "```\n1\n```\n", "```\n2\n```\n"
    given = task(f"Expected:\n{first}Got:\n{second}")
    assert [item.reason for item in differences(given, f"Got:\n{second}Expected:\n{first}")] == ["verbatim"]
    assert differences(given, f"I expect\n{first}and get\n{second}") == []


@pytest.mark.parametrize(
    "addition",
    ["Look at `_shift`.", "The function patterns.scale is fine.", "It fails 7 times.", "Use pattern == major."],
)
def test_code_names_and_numbers_that_the_statement_lacks_are_refused(addition: str) -> None:
    assert list(reasons(f"{GOOD}\n{addition}\n")) == ["invented"]


def test_a_call_of_a_stated_name_is_not_new() -> None:
    assert reasons(f"{GOOD}\nSo `relative()` is of no use to me.\n") == {}


def test_names_and_signatures_of_the_interface_stay() -> None:
    item = InterfaceItem(name="scales.patterns", kind="module", signature="the symptom alone")
    assert reasons(STATEMENT, item) == {}
    assert reasons(GOOD, item) == {"dropped": "it no longer states 'the symptom alone', spelled exactly so"}


def test_a_promise_of_a_truth_value_stays() -> None:
    given = task("It returns a bool for every colour, and has to continue to do that in the future.\n")
    (refusal,) = differences(given, "It decides about every colour, and has to continue to do that in the future.\n")
    assert refusal.detail == "it no longer states 'that it returns True or False', spelled exactly so"


@pytest.mark.parametrize("text", ["Fix it.\n", "word " * 400])
def test_a_text_of_another_length_is_refused(text: str) -> None:
    assert "length" in reasons(text)


def test_a_name_that_is_only_the_beginning_of_a_stated_one_is_not_demanded() -> None:
    item = InterfaceItem(name="scales.pattern", kind="attribute")
    assert reasons(GOOD, item) == {}
