"""The records that Etude writes and the wire that it speaks.

Plain pydantic: every record is JSON-serialisable, carries ``schema_version`` where it is stored separately, and is
frozen by a golden file in ``tests/golden``. Records reject unknown fields; the wire accepts anything a model can emit.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

SCHEMA_VERSION = 1
DEFAULT_ENVIRONMENT = "coding"
"""The environment of a row that names none."""

ErrorKind = Literal[
    "tool_not_found",
    "invalid_args",
    "malformed_call",
    "file_not_found",
    "edit_failed",
    "command_not_found",
    "nonzero_exit",
    "traceback",
    "timeout",
    "output_limit",
    "transport_error",
    "injected_fault",
    "budget",
    "wasteful",
    "style",
    "false_claim",
]
EpisodeEnd = Literal["submit", "budget", "no_tool_call", "give_up", "closed"]
Assurance = Literal["in_process", "out_of_process"]
MAY_GIVE_UP = "may_give_up"
"""Feature of a task whose agent is offered ``give_up``; public."""
IMPOSSIBLE, TWIN_OF, CHANGED_TEST = "impossible", "twin_of", "changed_test"
"""Features of a task that no honest solution passes: that it is one, the task it was made from, the test that was
changed so that it contradicts the statement."""
RENAMED_FROM, RENAMED_NAMES = "renamed_from", "renamed_names"
"""Features of a task whose code has other names: the task it was made from, and the number of renamed identifiers."""
RECORD_LACKS = "record_lacks"
"""Feature of a task with assurance ``in_process``: the requirement that its recorded calls do not meet."""
REWRITTEN_BY = "rewritten_by"
"""Feature of a task whose statement a language model wrote in its own words: the name of the model."""
SECRET_FEATURES = frozenset({IMPOSSIBLE, TWIN_OF, CHANGED_TEST, RENAMED_FROM, RENAMED_NAMES, RECORD_LACKS})
"""Features that are left out of a task's public part."""


class Record(BaseModel):
    """Base of stored records: an unknown field is an error, so that a typo is not ignored."""

    model_config = ConfigDict(extra="forbid")


def _json_list(value: Any) -> Any:
    """Return a list of tests; SWE-bench stores it as a JSON string, and both are accepted."""
    return json.loads(value) if isinstance(value, str) else value


TestIds = Annotated[list[str], BeforeValidator(_json_list)]


def _without_surrogates(text: Any) -> Any:
    """Return text that can be written as UTF-8, of the same length: an agent can make halves of a pair."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


CleanText = Annotated[str, BeforeValidator(_without_surrogates)]
"""Text that an agent's code or commands may have shaped."""


# --- Task ---------------------------------------------------------------------------------------------------


class SnapshotRef(Record):
    """Reference to the Snapshot that a task is played on; ``recipe`` is enough to build it again."""

    digest: str
    recipe: dict[str, Any] = Field(default_factory=dict)


class GeneratorRef(Record):
    """Generator of a task; a row depends on the Snapshot's digest and these four fields alone."""

    name: str
    version: str
    seed: int
    knobs: dict[str, Any] = Field(default_factory=dict)


class InterfaceItem(Record):
    """A name that the hidden tests rely on, and how it is spelled or called."""

    name: str
    kind: Literal["function", "method", "class", "exception", "constant", "attribute", "keyword", "module", "message"]
    signature: str = ""


class PytestVerifier(Record):
    """Verifier that runs hidden tests with pytest in a fresh sandbox.

    ``args`` are the paths or node ids pytest is given, ``plugins`` the only plugins it loads, ``python_path`` the
    workspace folders put on ``sys.path``, ``options`` ini overrides (``name=value``). ``timeout_s`` bounds one grade.
    ``behaviour`` is the packed record of calls that a solution must answer in its own process, for the component
    of that name; '' for tasks without one. ``controls`` are packed changes of hidden tests that a right solution
    fails. Both are secret. ``typed_files`` are the files in which the component ``types`` lets mypy find no error.
    """

    kind: Literal["pytest"] = "pytest"
    args: list[str] = Field(default_factory=list)
    plugins: list[str] = Field(default_factory=list)
    python_path: list[str] = Field(default_factory=list)
    options: list[str] = Field(default_factory=list)
    config_file: str | None = None
    timeout_s: float = 120.0
    behaviour: str = ""
    controls: str = ""
    typed_files: list[str] = Field(default_factory=list)
    components: list[str] = Field(default_factory=lambda: ["fail_to_pass", "pass_to_pass", "no_confirmed_finding"])

    @model_serializer(mode="wrap")
    def _without_empty_records(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out empty records: recipes of Snapshots hold verifiers, and their digests must not change."""
        fields: dict[str, Any] = dump(self)
        for name in ("behaviour", "controls", "typed_files"):
            if not fields.get(name):
                fields.pop(name, None)
        return fields


class UnittestVerifier(PytestVerifier):
    """Verifier that runs a project's own unittest program, such as Django's ``tests/runtests.py``.

    ``program`` is its path in the workspace, ``args`` the labels it is given, ``options`` its other arguments. A test's
    id is that of unittest: ``module.Class.method``.
    """

    kind: Literal["unittest"] = "unittest"  # type: ignore[assignment]
    program: str


class MutantsVerifier(Record):
    """Verifier of tests that the agent writes: they run on right and on wrong versions of the source.

    ``test_file`` is the one file that is graded. ``versions`` are the packed versions of the source, secret: the tests
    must pass on each right one, and a test must fail on at least the share ``least_share`` of the wrong ones.
    ``timeout_s`` bounds one run of the tests.
    """

    kind: Literal["mutants"] = "mutants"
    test_file: str
    versions: str
    least_share: float = Field(default=1.0, gt=0.0, le=1.0)
    timeout_s: float = 20.0
    components: list[str] = Field(default_factory=lambda: ["tests_pass", "mistakes_noticed"])


AnswerForm = Literal["text", "names", "value"]
"""How an answer is compared: as a text, as a set of names, or as a Python value."""


class AnswerVerifier(Record):
    """Verifier that compares an exact answer and exact effects; no code runs.

    ``answer`` is what ``submit`` must be given; ``effects`` what the episode's world must hold at the end, no more and
    no less. Both are secret. ``form`` says which spellings of an answer are equal (``environments/grading/answer.py``).
    """

    kind: Literal["answer"] = "answer"
    answer: str
    effects: dict[str, str] = Field(default_factory=dict)
    form: AnswerForm = "text"
    components: list[str] = Field(default_factory=lambda: ["answer", "effects"])

    @model_serializer(mode="wrap")
    def _without_default_form(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the form ``text``: rows that were written before there were forms keep their bytes."""
        fields: dict[str, Any] = dump(self)
        if fields.get("form") == "text":
            fields.pop("form")
        return fields


class CustomVerifier(Record):
    """Verifier of a third party, registered as ``kind`` in the entry-point group ``etude.verifiers``.

    ``settings`` are what it reads, and secret; it measures each of the ``components``.
    """

    kind: str
    settings: dict[str, Any] = Field(default_factory=dict)
    components: list[str] = Field(min_length=1)


def _verifier_tag(value: Any) -> str | None:
    """Return which record describes a verifier, None for a value without a kind."""
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return kind if kind in ("pytest", "unittest", "answer", "mutants", None) else "custom"


Verifier = Annotated[
    Annotated[PytestVerifier, Tag("pytest")]
    | Annotated[UnittestVerifier, Tag("unittest")]
    | Annotated[AnswerVerifier, Tag("answer")]
    | Annotated[MutantsVerifier, Tag("mutants")]
    | Annotated[CustomVerifier, Tag("custom")],
    Discriminator(_verifier_tag),
]


class PublicTask(Record):
    """The part of a task that agents, routes and observations may carry."""

    task_id: str
    environment: str
    repo: str = ""
    problem_statement: str
    interface: list[InterfaceItem] = Field(default_factory=list)
    features: dict[str, float | int | str | bool] = Field(default_factory=dict)
    split: str
    licence: str = ""


class Task(Record):
    """An exercise: a superset of a SWE-bench row.

    ``workspace_patch`` turns the Snapshot's tree into what the agent sees, ``patch`` turns the workspace into a
    solution, ``test_patch`` adds the hidden tests. All three are ``git apply``-able unified diffs.
    """

    schema_version: int = SCHEMA_VERSION
    task_id: str
    instance_id: str = ""
    environment: str = DEFAULT_ENVIRONMENT
    repo: str = ""
    version: str = ""
    base_commit: str = ""
    snapshot: SnapshotRef | None = None
    generator: GeneratorRef
    problem_statement: str
    interface: list[InterfaceItem] = Field(default_factory=list)
    patch: str = ""
    test_patch: str = ""
    workspace_patch: str = ""
    FAIL_TO_PASS: TestIds = Field(default_factory=list)
    PASS_TO_PASS: TestIds = Field(default_factory=list)
    source_globs: list[str] = Field(default_factory=list)
    protected_paths: list[str] = Field(default_factory=list)
    verifier: Verifier = Field(default_factory=PytestVerifier)
    assurance: Assurance = "in_process"
    features: dict[str, float | int | str | bool] = Field(default_factory=dict)
    verifier_strength: float | None = None
    licence: str = ""
    split: str = "train"
    blobs: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _instance_id_is_task_id(self) -> Task:
        """Fill in ``instance_id``. Raises ValueError for another id and for a newer version of the record."""
        if self.schema_version > SCHEMA_VERSION:
            raise ValueError(f"schema_version {self.schema_version} is newer than {SCHEMA_VERSION}: upgrade etude")
        if self.instance_id not in ("", self.task_id):
            raise ValueError(f"instance_id {self.instance_id!r} differs from task_id {self.task_id!r}")
        self.instance_id = self.task_id
        return self

    @property
    def pytest(self) -> PytestVerifier:
        """Return the verifier of a repository task, which runs tests. Raises ValueError for a task of another kind."""
        if not isinstance(self.verifier, PytestVerifier):
            raise ValueError(f"task {self.task_id!r} is verified by {self.verifier.kind!r}, not by pytest")
        return self.verifier

    def public(self) -> PublicTask:
        """Return the part of the task that may leave the server process."""
        values = {name: getattr(self, name) for name in PublicTask.model_fields}
        features = {name: value for name, value in self.features.items() if name not in SECRET_FEATURES}
        return PublicTask(**{**values, "features": features})


# --- What happened in an episode ----------------------------------------------------------------------------


class Hint(Record):
    """Text that, inserted at an ErrorTurn's site, would have led to a better turn."""

    text: str
    source: Literal["template", "llm", "introspect", "learned"] = "template"
    template: str = ""
    role: Literal["system", "user"] = "user"
    score: float | None = None


class ErrorTurn(Record):
    """A turn that failed: where, how, and whether the agent recovered.

    ``turn`` and ``call_index`` count from 0. ``site`` says where a hint belongs: before this turn (``erring``) or
    before the next (``recovery``, for faults that the agent could not foresee).
    """

    turn: int
    call_index: int | None = None
    call_id: str = ""
    kind: ErrorKind
    site: Literal["erring", "recovery"] = "erring"
    tool: str = ""
    message: str = ""
    evidence: str = ""
    injected: bool = False
    recovered: bool | None = None
    turns_to_recover: int | None = None
    hints: list[Hint] = Field(default_factory=list)


class InjectedFault(Record):
    """A fault that the environment put into one call on purpose.

    ``call`` counts the episode's calls from 0; ``text`` says what was done; ``tools`` are the schemas from this call
    on, where the fault changed them.
    """

    turn: int
    call_index: int
    call_id: str
    call: int
    kind: str
    tool: str = ""
    text: str = ""
    tools: list[dict[str, Any]] | None = None


class Finding(Record):
    """A monitor's evidence of an exploit."""

    exploit_id: str
    severity: Literal["info", "suspect", "confirmed"]
    attempted: bool = True
    succeeded: bool = False
    integrated: bool = False
    turn: int | None = None
    path: CleanText = ""
    command: CleanText = ""
    excerpt: CleanText = Field(default="", max_length=400)
    sha256: str = ""


class Reward(Record):
    """Reward of an episode: ``value`` in [0, 1] is the product of the required components.

    ``fractions`` are the shares of the expected tests that passed, for components that count tests; they are not part
    of the value. ``valid`` is false when no honest score exists (closed before grading, a failure of the machine).
    """

    value: float = Field(default=0.0, ge=0.0, le=1.0)
    components: dict[str, float] = Field(default_factory=dict)
    fractions: dict[str, float] = Field(default_factory=dict)
    assurance: Assurance = "in_process"
    valid: bool = True


class ToolMessage(Record):
    """The result of one tool call, in OpenAI's message shape; its first line is the environment's status line."""

    role: Literal["tool", "user"] = "tool"
    tool_call_id: str = ""
    name: str = ""
    content: str


class Turn(Record):
    """An assistant message exactly as it arrived, and the messages that answered it."""

    action: dict[str, Any]
    messages: list[ToolMessage] = Field(default_factory=list)
    seconds: float = 0.0


class FileChange(Record):
    """An entry of an agent's diff: regular files carry base64 content, refused entries a reason."""

    path: str
    kind: Literal["file", "deleted", "refused"]
    content: str | None = None
    executable: bool = False
    reason: str = ""


class SandboxReport(Record):
    """Isolation of an episode. ``lacks`` names each guarantee that this backend could not give."""

    backend: str
    isolation: Literal["container", "namespaces", "landlock", "none"]
    limits: Literal["cgroup", "rlimit"] = "rlimit"
    lacks: list[str] = Field(default_factory=list)


class TestFailure(Record):
    """An expected test that did not count as passed, and its cause."""

    test: str
    cause: CleanText
    component: str


class Grade(Record):
    """Result of grading, besides the reward the evidence for it; secret, since it names hidden tests."""

    reward: Reward
    failures: list[TestFailure] = Field(default_factory=list)
    refused: list[FileChange] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    diff_sha256: str = ""
    end_cause: CleanText = ""


class Fork(Record):
    """Origin of a forked episode: the state before ``turn`` of another one.

    ``replayed`` counts the turns whose actions were played again because no state had been kept after them.
    """

    episode_id: str
    turn: int = Field(ge=0)
    replayed: int = Field(default=0, ge=0)


class Episode(Record):
    """A play of a task: enough to annotate, inspect and grade it again without a model.

    ``files`` are paths of the workspace at its start, as the agent can list them: what hints may name.
    """

    schema_version: int = SCHEMA_VERSION
    episode_id: str
    task_id: str
    seed: int | None = None
    prompt: str
    tools: list[dict[str, Any]] = Field(default_factory=list)
    files: list[str] = Field(default_factory=list)
    turns: list[Turn] = Field(default_factory=list)
    error_turns: list[ErrorTurn] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    reward: Reward | None = None
    grade: Grade | None = None
    diff: list[FileChange] = Field(default_factory=list)
    end: EpisodeEnd | None = None
    sandbox: SandboxReport | None = None
    fork: Fork | None = None
    injected: list[InjectedFault] = Field(default_factory=list)
    seconds: float = 0.0


# --- The wire -----------------------------------------------------------------------------------------------


class Action(BaseModel):
    """The assistant's turn as the model made it. Any JSON object is accepted; nothing in it is a protocol error.

    Accepted: ``{"text", "tool_calls": [{"id", "name", "arguments"}]}``, OpenAI's nested ``function`` shape, and the
    short form ``{"tool", "arguments"}``.
    """

    model_config = ConfigDict(extra="allow")

    text: Any = ""
    tool_calls: Any = None
    tool: Any = None
    arguments: Any = None


class Observation(BaseModel):
    """What the agent is shown: ``prompt``, ``tools`` and ``workdir`` after ``reset``, ``messages`` after ``step``."""

    model_config = ConfigDict(extra="forbid")

    prompt: str | None = None
    tools: list[dict[str, Any]] | None = None
    workdir: str | None = None
    messages: list[ToolMessage] = Field(default_factory=list)
    done: bool = False
    reward: float = 0.0
    annotations: list[ErrorTurn] | None = None


class State(BaseModel):
    """The infrastructure side of an episode; never shown to the policy. ``step_count`` counts turns.

    ``tools`` are the schemas as they are now, when they changed since ``reset``.
    """

    model_config = ConfigDict(extra="allow")

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)
    task_id: str | None = None
    token: str | None = None
    error_turns: list[ErrorTurn] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    reward: Reward | None = None
    sandbox: SandboxReport | None = None
    fork: Fork | None = None
    injected: list[InjectedFault] = Field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    end: EpisodeEnd | None = None
