"""The statement of the mutation generators: what misbehaves, as a user, a maintainer or a short note says it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...base import FailingCall, StatementContext, TestPolicy
from ...statements.behaviours import MAX_BEHAVIOURS, behaviour_lines, bullets, grouped_lines, interface_lines
from ...statements.reproduction import code, console, does, fenced, is_inline, shown_lines, title, wish
from ...statements.styles import StyleChoice, drawn_style

MAX_MESSAGES, MAX_MESSAGE = 5, 240
MAX_TERSE, MAX_TITLE = 4, 80
MAX_VISIBLE, MAX_ISSUE = 12, 6

_OPENINGS = {
    "issue": (
        "I ran into this with {package}:",
        "With {package} I get a wrong result:",
        "After updating my checkout of {package}, this no longer works:",
        "This does not work in my checkout of {package}:",
        "Found while using {package}:",
        "Something is off in {package}. To reproduce:",
    ),
    "instruction": (
        "Fix a regression in this code base, {package}. To reproduce it:",
        "A recent change broke something in {package}. This shows it:",
        "Correct the following behaviour of {package}:",
        "{package} has a bug that needs a fix. The shortest way to see it:",
    ),
}
_ABOUT_TESTS = {
    "issue": (
        "I ran into a problem with {package} and have no short example for it. This is what does not work:",
        "Something in {package} broke with a recent change. I have no short example; what goes wrong is:",
        "Some things no longer work in {package}:",
    ),
    "instruction": (
        "Fix a regression in this code base, {package}. Tests about the following fail:",
        "A recent change broke something in {package}. Find the mistake and correct it; these behaviours are affected:",
    ),
    "terse": (
        "{package} has a bug. Wrong now:",
        "A recent change broke {package}. No longer right:",
    ),
}
_CLOSINGS = {
    "issue": (
        "The documentation describes the right behaviour; everything else that I use works.",
        "Everything else seems fine, and as far as I can see the documentation is right.",
        "I have not looked for the cause. The documentation did not change.",
    ),
    "instruction": (
        "The documentation is right, the code is not. Find the mistake in the package and correct it there; whatever "
        "works now has to keep working.",
        "Correct the cause in the package's code, not the symptom alone. The documentation is up to date, and nothing "
        "that works may change.",
        "Find the cause and fix it. Documentation and the other behaviour stay as they are.",
    ),
}
_ALSO = {
    "issue": (
        "Other things that go wrong, probably for the same reason:",
        "The same problem shows in other places:",
        "It also affects:",
    ),
    "instruction": (
        "Hidden tests cover these behaviours, all of them wrong now:",
        "The fix has to make all of this right again:",
        "Tests for these behaviours fail at the moment:",
    ),
}
_VISIBLE = {
    "visible": "These tests of the code base fail:",
    "half": "These tests fail; half of them are part of the code base:",
}
_TWO = (
    "Two places of the code are wrong, and each of them is enough to make tests fail. The second may show only after "
    "the first is corrected."
)


@dataclass(frozen=True)
class BugReport:
    """What a user of the package can report: what misbehaves, not where the mistake is."""

    policy: TestPolicy  # which failing tests the workspace lacks
    style: StyleChoice = "seeded"  # the style, or that the seed chooses it
    seed: int = 0  # the generator's seed
    key: str = ""  # what distinguishes the task from others of that seed
    mistakes: int = 1  # how many places are wrong

    def render(self, context: StatementContext) -> str:
        """Return the report: a call that gives a wrong result, or else how tests fail."""
        style, draw = drawn_style(self.style, self.seed, self.key)
        call = context.failing_calls[0] if context.failing_calls else None
        if call is None:
            paragraphs = self._without_call(context, style, draw)
        elif style == "terse":
            paragraphs = self._terse(context, call, draw)
        else:
            paragraphs = self._with_call(context, call, style, draw)
        if self.mistakes > 1:
            paragraphs.append(_TWO)
        return "\n\n".join(paragraphs) + "\n"

    def _with_call(self, context: StatementContext, call: FailingCall, style: str, draw: random.Random) -> list[str]:
        """Return title, reproduction, what is expected, and what else is affected."""
        opening = draw.choice(_OPENINGS[style]).format(package=context.package)
        paragraphs = [f"# {title(call, draw)}", opening, console(call, call.actual), _expectation(call, style, draw)]
        also = draw.choice(_ALSO[style])
        if self.policy != "hidden":
            paragraphs.append(f"{_VISIBLE[self.policy]}\n\n{_test_ids(context.failing)}")
        elif len(behaviour_lines(context.failing)) > 1:
            lines = grouped_lines(context.failing, MAX_ISSUE if style == "issue" else MAX_BEHAVIOURS)
            paragraphs.append(f"{also}\n\n{bullets(lines)}")
        return [*paragraphs, draw.choice(_CLOSINGS[style])]

    def _terse(self, context: StatementContext, call: FailingCall, draw: random.Random) -> list[str]:
        """Return one or two sentences and the reproduction."""
        if is_inline(call.expected) and is_inline(call.actual) and len(call.call) <= 90:
            sentence = f"{code(call.call)} {does(call.actual)}; it should {wish(call)}."
            sentence = draw.choice([sentence, f"In {context.package}, {sentence}"])
            paragraphs = [f"{sentence} {draw.choice(['Fix it.', 'Please fix.', 'Find out why and fix it.'])}"]
            paragraphs.append(console(call, call.actual))
        else:
            paragraphs = [f"{title(call, draw)}. Fix it.", console(call, call.actual), f"Expected:\n\n{_block(call)}"]
        behaviours = behaviour_lines(context.failing)
        if self.policy != "hidden":
            paragraphs.append(f"{_VISIBLE[self.policy]}\n\n{_test_ids(context.failing)}")
        elif len(behaviours) > 1:
            paragraphs.append(f"Also affected: {'; '.join(grouped_lines(context.failing, MAX_TERSE))}.")
        return paragraphs

    def _without_call(self, context: StatementContext, style: str, draw: random.Random) -> list[str]:
        """Return what is known without a call: the behaviours, and how their tests fail."""
        behaviours = grouped_lines(context.failing)
        failures = _failures(context)
        opening = draw.choice(_ABOUT_TESTS[style]).format(package=context.package)
        paragraphs = [] if style == "terse" else [f"# {_plain_title(context, draw)}"]
        if self.policy != "hidden":
            paragraphs.append(f"{opening.rpartition('. ')[0] or opening}.\n\n{_VISIBLE[self.policy]}")
            paragraphs.append(_test_ids(context.failing))
        else:
            paragraphs += [opening, bullets(behaviours or ["see the failures below"])]
        if failures:
            heads = ["How it fails:", "Checks of this fail with:", "The errors are:"]
            paragraphs.append(f"{draw.choice(heads)}\n\n{bullets(failures)}")
        # That tests expect a builtin error says nothing about a mistake.
        names = interface_lines([item for item in context.interface if item.kind != "exception" or "." in item.name])
        is_told = any(not item.endswith(": `AssertionError`") for item in failures)
        if names and not is_told:  # an error says more, and these names may not be affected at all
            heads = ["The failing tests use:", "Involved are:", "Names that come up in the failing tests:"]
            paragraphs.append(f"{draw.choice(heads)}\n\n" + "\n".join(names))
        return paragraphs if style == "terse" else [*paragraphs, draw.choice(_CLOSINGS[style])]


def _expectation(call: FailingCall, style: str, draw: random.Random) -> str:
    """Return what the last line of the session should give."""
    wished = wish(call)
    if not wished:
        heads = ["Expected:", "It should have been:"] if style == "issue" else ["It has to be:", "Expected:"]
        return f"{draw.choice(heads)}\n\n{_block(call)}"
    if style == "issue":
        return draw.choice([f"I expected it to {wished}.", f"It should {wished}.", f"Shouldn't that {wished}?"])
    return draw.choice([f"It has to {wished}.", f"The last line must {wished}.", f"It should {wished} instead."])


def _block(call: FailingCall) -> str:
    """Return the expected result as a block, or as a sentence where there is nothing to show."""
    if not shown_lines(call.expected):
        return "Nothing (`None`)."
    return fenced("\n".join(shown_lines(call.expected)))


def _plain_title(context: StatementContext, draw: random.Random) -> str:
    """Return a title without a call: an error, or the first behaviour."""
    package = context.package.partition(" ")[0]
    errors = [context.messages[test] for test in context.failing if test in context.messages]
    specific = [text for text in errors if not text.startswith(("Assertion", "Failed")) and len(text) <= MAX_TITLE]
    if specific:
        error = code(specific[0])
        return draw.choice([f"{error} in {package}", f"{package} fails with {error}", f"{package}: {error}"])
    behaviours = behaviour_lines(context.failing)
    first = behaviours[0].partition(" (")[0] if behaviours else ""
    if not first:
        return f"Regression in {package}"
    return draw.choice([f"{package}: problem with {first}", f"Regression in {package}: {first}", f"{package}: {first}"])


def _failures(context: StatementContext) -> list[str]:
    """Return how tests fail, each message once, as list items."""
    lines: dict[str, str] = {}
    for test in context.failing:
        text = " ".join(context.messages.get(test, "").split()).removesuffix(" Use -v to get more diff")
        if text and len(text) <= MAX_MESSAGE and "-vv" not in text:
            behaviour = (behaviour_lines([test]) or ["a test"])[0]
            missing = re.fullmatch(r"Failed: DID NOT RAISE <class '(?:\w+\.)*(\w+)'>", text)
            lines.setdefault(text, f"{behaviour}: {f'no `{missing[1]}` is raised' if missing else code(text)}")
    return list(lines.values())[:MAX_MESSAGES]


def _test_ids(failing: Sequence[str]) -> str:
    """Return tests as list items."""
    more = len(failing) - MAX_VISIBLE
    lines = [f"`{test}`" for test in failing[:MAX_VISIBLE]]
    return bullets(lines + ([f"and {more} more"] if more > 0 else []))
