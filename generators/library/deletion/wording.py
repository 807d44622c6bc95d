"""The words of a deletion statement in each style; the facts between them come from ``statement``."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from ...statements.styles import Style

Section = str
"""``documentation``, ``members``, ``owner``, ``example``, ``examples``, ``names``, ``callers``, ``interface``
or ``used``."""

_TITLES: Mapping[tuple[Style, str], Sequence[str]] = {
    ("instruction", "stub"): ("Implement {where}", "Complete {where}", "Write the missing body of {where}"),
    ("instruction", "remove"): ("Implement {where}", "Bring {where} back", "Add {where} again"),
    ("issue", "stub"): ("{where} raises `NotImplementedError`", "{where} is not implemented", "Missing body: {where}"),
    ("issue", "remove"): ("{where} is missing", "Please add {where}", "{where} does not exist"),
}
_CLASS_TITLES: Mapping[Style, Sequence[str]] = {
    "instruction": ("Implement {where}", "Complete {where}", "Write the missing methods of {where}"),
    "issue": ("The methods of {where} raise `NotImplementedError`", "{where} is not implemented"),
}
_STUB: Mapping[Style, Sequence[str]] = {
    "instruction": (
        "In this code base, the {package} package, the body of {where} is missing: calling it raises "
        "`NotImplementedError`. Everything else works. Write the {kind} so that it behaves as described here.",
        "The body of {where} is missing in this code base, {package}; a call raises `NotImplementedError`. Write it as "
        "described here, and leave the rest as it is: that works.",
    ),
    "issue": (
        "I want to use {where} of {package}, and all I get is `NotImplementedError`: its body is missing. Everything "
        "else seems to work.",
        "In {package}, calling {where} raises `NotImplementedError`. It looks unfinished. Please write the "
        "{kind}; the rest of the package works.",
    ),
    "terse": (
        "{package}: {where} has no body and raises `NotImplementedError`. Write it.",
        "Write the body of {where} ({package}); it raises `NotImplementedError` now.",
    ),
}
_STUB_CLASS: Mapping[Style, Sequence[str]] = {
    "instruction": (
        "In this code base, the {package} package, the methods of the class {where} have no body: calling one raises "
        "`NotImplementedError`. Everything else works. Write them so that the class behaves as described here.",
    ),
    "issue": (
        "In {package}, the methods of the class {where} raise `NotImplementedError`: their bodies are missing. "
        "Everything else seems to work.",
    ),
    "terse": (
        "{package}: the methods of the class {where} have no bodies and raise `NotImplementedError`. Write them.",
    ),
}
_REMOVED: Mapping[Style, Sequence[str]] = {
    "instruction": (
        "In this code base, the {package} package, the {kind} {where} has been removed. Everything else works. "
        "Write it again in `{module}`, so that it behaves as described here.",
        "The {kind} {where} is no longer in this code base, {package}. Write it again in `{module}` as "
        "described here; everything else works and stays as it is.",
    ),
    "issue": (
        "The {kind} {where} is missing in {package}. I rely on it; please add it again, in `{module}`.",
        "I cannot find the {kind} {where} in {package} any more: it was removed. It belongs in `{module}`, and "
        "I need it back as it was.",
    ),
    "terse": (
        "{package} lacks the {kind} {where}. Write it, in `{module}`.",
        "Add the {kind} {where} to {package} again, in `{module}`; it was removed.",
    ),
}
_SECTIONS: Mapping[tuple[Style, Section], Sequence[str]] = {
    ("issue", "documentation"): ("Its documentation says:", "From the documentation:", "It is documented like this:"),
    ("issue", "members"): ("It should have:", "Its members are:"),
    ("issue", "owner"): ("It is a method of this class:", "It belongs to:"),
    ("issue", "names"): ("These names went with it and have to be there again:",),
    ("issue", "callers"): ("These statements used it and raise `NotImplementedError` now. They were:",),
    ("issue", "interface"): ("The tests for this also use:", "Also involved:"),
    ("issue", "example"): ("An example of what it should give:", "For instance, this should work:"),
    ("issue", "examples"): ("Examples of what it should give:", "For instance, these should work:"),
    ("issue", "used"): ("The package itself calls it here:", "It is used in:"),
    ("terse", "documentation"): ("Documentation:",),
    ("terse", "members"): ("Members:",),
    ("terse", "owner"): ("Class:",),
    ("terse", "names"): ("Names to restore:",),
    ("terse", "callers"): ("Statements that used it and raise `NotImplementedError` now:",),
    ("terse", "interface"): ("The hidden tests also rely on:",),
    ("terse", "example"): ("Example:",),
    ("terse", "examples"): ("Examples:",),
    ("terse", "used"): ("Callers:",),
    ("instruction", "documentation"): ("## Documentation",),
    ("instruction", "members"): ("## Members",),
    ("instruction", "owner"): ("## Its class",),
    ("instruction", "names"): ("## Names to restore\n\nThese went with it and have to be there again:",),
    ("instruction", "callers"): (
        "## Callers to restore\n\nThese statements used it and raise `NotImplementedError` now. They were:",
    ),
    ("instruction", "interface"): ("## Interface\n\nThe hidden tests also rely on:",),
    ("instruction", "example"): ("## Example\n\nWith the right code:",),
    ("instruction", "examples"): ("## Examples\n\nWith the right code:",),
    ("instruction", "used"): ("## Where it is used",),
}
_BEHAVIOUR: Mapping[tuple[Style, str], Sequence[str]] = {
    ("issue", "hidden"): ("These cases have to work:", "What has to work, with it or through its callers:"),
    ("issue", "visible"): ("These tests of the workspace fail now:",),
    ("issue", "half"): ("These tests fail now; half of them are in the workspace, all of them are graded:",),
    ("terse", "hidden"): ("Tests cover:", "Hidden tests check:"),
    ("terse", "visible"): ("These tests fail now:",),
    ("terse", "half"): ("These tests fail now, half of them are in the workspace:",),
    ("instruction", "hidden"): ("## Behaviour\n\nHidden tests check, directly or through callers:",),
    ("instruction", "visible"): ("## Behaviour\n\nThese tests of the workspace fail now:",),
    ("instruction", "half"): (
        "## Behaviour\n\nThese tests fail now; half of them are in the workspace, all of them are graded:",
    ),
}


def title_of(style: Style, mode: str, kind: str, where: str, draw: random.Random) -> str:
    """Return the title; a terse statement has none."""
    if style == "terse":
        return ""
    is_stub_class = kind == "class" and mode == "stub"
    options = _CLASS_TITLES[style] if is_stub_class else _TITLES[style, mode]
    return draw.choice(options).format(where=where)


def opening_of(style: Style, mode: str, kind: str, draw: random.Random, facts: Mapping[str, str]) -> str:
    """Return the first paragraph: what the workspace has in the place of the code, and what to do.

    ``facts`` are ``where``, ``package`` and ``module``.
    """
    texts = _REMOVED if mode == "remove" else _STUB_CLASS if kind == "class" else _STUB
    return draw.choice(texts[style]).format(kind=kind, **facts)


def lead_of(style: Style, section: Section, draw: random.Random) -> str:
    """Return the heading or the sentence before a section."""
    return draw.choice(_SECTIONS[style, section])


def behaviour_lead(style: Style, policy: str, draw: random.Random) -> str:
    """Return the heading or the sentence before the behaviours that tests check."""
    return draw.choice(_BEHAVIOUR[style, policy])
