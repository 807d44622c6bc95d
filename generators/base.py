"""Generators propose Candidates; the validator decides which of them become Tasks.

A generator is one small file in ``library/``: a class with ``name``, ``version``, ``knobs`` and ``candidates``. It
never runs anything: each proposal is tried and measured by ``validation/pipeline.py``, the same for all generators.
``python/tested_code.py`` has the helpers that most generators need, ``statements/`` the parts of a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..models import AnswerForm, GeneratorRef, InterfaceItem

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
    """The import lines that it needs, then functions that the test defines, with several lines each."""
    setup: Sequence[SessionLine]
    """The lines before it, which make its objects."""
    call: str
    """The call, on one line."""
    expected: CallResult
    """What it gives with the right code."""
    actual: CallResult
    """What it gives in the workspace."""


@dataclass(frozen=True)
class Example:
    """A call of a failing test with its right result, which it does not give in the workspace.

    It was executed as it is written here.
    """

    test: str
    """The test that makes the call."""
    imports: Sequence[str]
    """The import lines that it needs, then functions that the test defines, with several lines each."""
    setup: Sequence[SessionLine]
    """The lines before it, which make its objects."""
    call: str
    """The call, on one line."""
    result: CallResult
    """What it gives with the right code."""


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
    older: str = ""
    """The version of the dependency of ``Candidate.migration`` with which the exercise works."""
    test_file: str = ""
    """The file in which the agent has to write its tests."""
    question: str = ""
    """The part of a question that is known only once its answer was observed."""
    failing_calls: Sequence[FailingCall] = ()
    """A call of a failing test whose result is wrong: at most one, and only if ``Candidate.observe_calls`` asks."""
    examples: Sequence[Example] = ()
    """Calls of some failing tests with their right results, in suite order, if ``Candidate.show_examples`` asks."""


class Statement(Protocol):
    """The statement of a task before its tests are measured. Statements are pickled, so they hold no functions."""

    def render(self, context: StatementContext) -> str:
        """Return the whole text, as Markdown that ends with a newline."""
        ...


@dataclass(frozen=True)
class ScheduledStep:
    """One step of a schedule of tests: what the workspace shows of the next test, and which tests come later."""

    shown: Files
    """Test files as the workspace has them, where that differs from the Snapshot; the policy decides nothing then."""
    given_cases: Sequence[str]
    """The cases of the next test that the workspace shows: one must fail there."""
    later: Sequence[str] = ()
    """Tests of later steps: the workspace lacks them, and nothing is expected of them."""


@dataclass(frozen=True)
class HiddenTests:
    """The tests that decide about a solution, and what the workspace shows of them."""

    affected: Sequence[str]
    """Stable tests, or tests of ``added``, that run the changed code, in suite order; at least one must fail."""
    policy: TestPolicy = "hidden"
    """Which failing tests leave the workspace."""
    rewritten: Files = field(default_factory=dict)
    """Test files without the names that the exercise removes: a file that imports such a name would fail as a whole."""
    lost_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names that each rewritten file lost."""
    added: Files = field(default_factory=dict)
    """Test files that grading adds, or has in place of the Snapshot's; ``affected`` may name tests of these.

    The workspace keeps the Snapshot's files, unless ``policy`` is ``visible``.
    """
    step: ScheduledStep | None = None
    """The step, where the tests are part of a schedule: then no tests but ``affected`` may fail in the workspace."""


@dataclass(frozen=True)
class Configuration:
    """Configuration files that a task is about. The solution of any other task may not change such files."""

    paths: Sequence[str] = ()
    """Files such as ``pyproject.toml`` whose changes are graded, named one by one."""
    pytest_settings: str | None = None
    """File of the exercise from which pytest takes its settings instead of one of ``paths``; no solution may change it.

    None where pytest reads none of ``paths``.
    """


@dataclass(frozen=True)
class Migration:
    """A dependency whose older version the exercise was written for. Validation finds one with which it works."""

    dependency: str
    """Its distribution name."""
    version: str
    """The version of the Snapshot, with which the exercise fails."""


@dataclass(frozen=True)
class Rejection:
    """Why a candidate does not become a task: ``reason`` is counted, ``detail`` explains this one."""

    reason: str
    detail: str


@dataclass(frozen=True)
class WrittenTests:
    """What the agent hands in is a test file, which is run on right and on wrong versions of the source.

    The oracle is a copy of the tests that decide, so ``right`` and ``wrong`` hold whole source files.
    """

    right: Sequence[Files]
    """Versions of the source on which the tests must pass; the files that differ from the workspace."""
    wrong: Sequence[Files]
    """Proposals for versions that a test must fail on; those that the oracle notices are retained."""
    oracle: Sequence[str] = ()
    """The tests that leave the workspace and whose copy is the oracle; empty: those that fail in the workspace."""
    copied: str = ""
    """The test file whose tests are copied, where the oracle's tests are in several; empty: the one with the most."""
    least: int = 1
    """Fewest wrong versions of a task."""
    most: int = 10
    """Most wrong versions of a task."""
    least_share: float = 1.0
    """Share of the wrong versions that the tests must notice."""
    stem: str = "written"
    """The file's name is made of this word: ``test_written.py``."""


@dataclass(frozen=True)
class Observed:
    """What the validator saw in the workspace, from which a question is answered."""

    printed: str
    """Standard output of the question's program; it is the same in two runs with other hash seeds."""
    covered: Mapping[str, Mapping[str, Sequence[int]]]
    """Lines that each traced test runs, by file; '' stands for what runs outside tests."""


@dataclass(frozen=True)
class Answered:
    """The answer to a question."""

    answer: str
    """The exact answer, in its normal form."""
    question: str = ""
    """The part of the question that the observation decided, for the statement."""
    guesses: Sequence[str] = ()
    """Answers that are easy to guess without looking; none of them may be right."""


class Question(Protocol):
    """A question about the code. Questions are pickled, so they hold no functions."""

    @property
    def form(self) -> AnswerForm:
        """Return how answers are compared."""
        ...

    @property
    def program(self) -> str:
        """Return a program that prints what the answer is made of; '' where traced tests are enough."""
        ...

    @property
    def traced(self) -> Sequence[str] | None:
        """Return the tests whose lines are measured, in a run of these alone; empty: the suite; None: no tests."""
        ...

    def answer(self, observed: Observed) -> Answered:
        """Return the answer. Raises Rejected where there is none, or none that is worth asking for."""
        ...


@dataclass(frozen=True)
class ExactAnswer:
    """What the agent hands in is an answer, which is compared with the observed one."""

    question: Question
    """The question."""


Deliverable = WrittenTests | ExactAnswer
"""What the agent hands in, where that is not a change of the source."""


@dataclass(frozen=True)
class Candidate:
    """A proposed exercise: the changed files, the tests that decide, and the parts of the statement.

    The solution is what the Snapshot holds, so most candidates need no inverse patch; one that asks for more than the
    Snapshot has brings its ``solution``. Candidates are pickled.
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
    show_examples: bool = False
    """Whether the statement shows calls of failing tests with their right results; they cover half of the tests."""
    documented: bool = True
    """Whether the statement describes the behaviour in prose, and not by the names of tests alone."""
    interface: Sequence[InterfaceItem] = ()
    """Names that a solution must provide."""
    solution: Files = field(default_factory=dict)
    """Files in which the solution differs from the Snapshot; empty where the Snapshot is the solution."""
    configuration: Configuration = Configuration()
    """Configuration files that the solution changes; none for most candidates."""
    typed_files: Sequence[str] = ()
    """Source files in which a type checker must find no error."""
    probes: Mapping[str, Files] = field(default_factory=dict)
    """Trivial solutions by name; each must score 0."""
    features: Mapping[str, Feature] = field(default_factory=dict)
    """What the generator knows about the exercise; added to the measured features of the row."""
    max_failing_share: float = 0.5
    """Largest share of all tests that may fail in the workspace, or the base is broken. With 1, all may."""
    blocked: Rejection | None = None
    """Why the proposal cannot be carried out; it is then rejected without a run."""
    migration: Migration | None = None
    """The dependency that the exercise has to be migrated to; modules and test files need not be importable then."""
    deliverable: Deliverable | None = None
    """What the agent hands in instead of a change of the source; None: hidden tests grade its sources."""


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
