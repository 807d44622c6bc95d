"""Generators propose Candidates; the validator decides which of them become Tasks.

A generator is one small file in ``library/``: a class with ``name``, ``version``, ``knobs`` and ``candidates``. It
never runs anything: each proposal is tried and measured by ``validation/pipeline.py``, the same for all generators.
``python/tested_code.py`` has the helpers that most generators need, ``statements/`` the parts of a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..models import GeneratorRef, InterfaceItem

if TYPE_CHECKING:
    from ..environments.snapshots import Snapshot

Files = dict[str, bytes | None]
"""Workspace-relative path to content; ``None`` stands for a file that is absent."""

Feature = float | int | str | bool
"""One measured property of a task, as a row holds it."""

TestPolicy = Literal["hidden", "visible", "half"]
"""Which failing tests the workspace lacks: all, none, or every second one, drawn by the seed. All are graded."""


@dataclass(frozen=True)
class CallResult:
    """What a line of Python gives, as a console shows it; it is the same in every run."""

    kind: Literal["value", "nothing", "raises"]
    """``nothing`` stands for None, and for lines such as assignments."""
    text: str
    """The text of the value, or ``Error: message`` of the exception; empty for nothing."""
    printed: str = ""
    """What it prints before."""


@dataclass(frozen=True)
class SessionLine:
    """A line that a user types, and what the console shows after it."""

    text: str
    """The line."""
    shown: str = ""
    """What it prints and gives."""


@dataclass(frozen=True)
class FailingCall:
    """A call whose result is wrong in the workspace. It was executed as it is written here, on both trees."""

    imports: Sequence[str]
    """The import lines that it needs."""
    setup: Sequence[SessionLine]
    """The lines before it, which make its objects."""
    call: str
    """The call, on one line."""
    expected: CallResult
    """What it gives with the right code."""
    actual: CallResult
    """What it gives in the workspace."""


@dataclass(frozen=True)
class StatementContext:
    """Facts that a statement needs and that are known only once the tests were run."""

    package: str
    """Name and version of the package: ``cachetools 5.5.0``."""
    failing: Sequence[str]
    """FAIL_TO_PASS: tests that name the candidate's subject first, then those that run the changed code."""
    interface: Sequence[InterfaceItem]
    """Names that the failing tests use besides those of ``Candidate.interface``."""
    messages: Mapping[str, str] = field(default_factory=dict)
    """How tests of ``failing`` fail, exception and message, where that is the same in every run."""
    failing_calls: Sequence[FailingCall] = ()
    """A call of a failing test whose result is wrong: at most one, and only if ``Candidate.observe_calls`` asks."""


class Statement(Protocol):
    """The statement of a task before its tests are measured. Statements are pickled, so they hold no functions."""

    def render(self, context: StatementContext) -> str:
        """Return the whole text, as Markdown that ends with a newline."""
        ...


@dataclass(frozen=True)
class HiddenTests:
    """The tests that decide about a solution, and what the workspace shows of them."""

    affected: Sequence[str]
    """Stable tests that run the changed code, in suite order; at least one must fail."""
    policy: TestPolicy = "hidden"
    """Which failing tests leave the workspace."""
    rewritten: Files = field(default_factory=dict)
    """Test files without the names that the exercise removes: a file that imports such a name would fail as a whole."""
    lost_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names that each rewritten file lost."""


@dataclass(frozen=True)
class Rejection:
    """Why a candidate does not become a task: ``reason`` is counted, ``detail`` explains this one."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Candidate:
    """A proposed exercise: the changed files, the tests that decide, and the parts of the statement.

    The solution is what the Snapshot holds, so a candidate needs no inverse patch. Candidates are pickled.
    """

    entity: str
    """What the exercise is about, unique within one generator: ``path/module.py::Class.name``.

    The part after ``::`` becomes part of the task's public id. Where the agent has to find the place, make it a digest.
    """
    generator: GeneratorRef
    """Name, version, seed and knobs of the generator."""
    exercise: Files
    """Sources and documents as the workspace has them, where that differs from the Snapshot."""
    hidden_tests: HiddenTests
    """The tests that decide."""
    statement: Statement
    """Renders the task's statement."""
    subject: str = ""
    """The name that tests use for the changed code; empty when they cannot name it."""
    observe_calls: bool = False
    """Whether the statement shows a call that gives a wrong result; validation then looks for one."""
    documented: bool = True
    """Whether the statement describes the behaviour in prose, and not by the names of tests alone."""
    interface: Sequence[InterfaceItem] = ()
    """Names that a solution must provide."""
    probes: Mapping[str, Files] = field(default_factory=dict)
    """Trivial solutions by name; each must score 0."""
    features: Mapping[str, Feature] = field(default_factory=dict)
    """What the generator knows about the exercise; added to the measured features of the row."""
    blocked: Rejection | None = None
    """Why the proposal cannot be carried out; it is then rejected without a run."""


class Generator(Protocol):
    """Proposes candidates in seed order. The first line of its docstring is what ``etude list`` shows."""

    name: str
    """The registered name, part of every task id."""
    version: str
    """Raised whenever the same seed would give other rows."""
    knobs: type[Any]
    """A dataclass whose fields are the knobs, each with a default and a docstring (see ``knob_parsing.py``)."""

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Any) -> Iterator[Candidate]:
        """Yield candidates: a pure function of the Snapshot, the seed and ``knobs``, an instance of ``self.knobs``."""
        ...


@dataclass(frozen=True)
class ProgressUpdate:
    """How far a long operation is. ``str()`` gives one line for a user."""

    phase: str
    """The current step, such as a source's name."""
    done: int = 0
    """Units of work that are finished."""
    total: int = 0
    """All units of work; 0 when the number is not known."""
    accepted: int = 0
    """Candidates that became tasks so far."""
    rejected: int = 0
    """Candidates that were rejected so far."""
    last_rejection: str = ""
    """Reason of the last rejection."""

    def __str__(self) -> str:
        """Return the phase, and the counts of candidates where there are any."""
        if not self.accepted + self.rejected:
            return self.phase
        counts = f"{self.done} of {self.total}, {self.accepted} accepted, {self.rejected} rejected"
        return f"{self.phase}: {counts}" + (f" (last: {self.last_rejection})" if self.last_rejection else "")


Progress = Callable[[ProgressUpdate], None]
"""Called whenever a step begins or a unit of work is finished."""


def no_progress(update: ProgressUpdate) -> None:
    """Ignore the update."""
