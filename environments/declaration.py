"""What an environment declares, and how it plays: the part of a session that a new environment writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

from pydantic import BeforeValidator, ConfigDict, ValidationError, ValidationInfo, create_model

from ..errors import GraderError, UnknownName
from ..hints.transcript.tool_schemas import parameters_of
from ..models import MAY_GIVE_UP, AnswerVerifier, Episode, SandboxReport, Task
from ..registry import did_you_mean
from .actions import Solution, call
from .grading import Submission
from .sandbox import SavedLayer
from .tasks.task_set import Tasks, TaskSet
from .tool_protocol import GIVE_UP, SUBMIT, function_schema, parameters_schema

SUBMIT_SCHEMA = function_schema(
    SUBMIT,
    "End the episode with your answer.",
    parameters_schema({"answer": {"type": "string"}, "summary": {"type": "string"}}, ()),
)
"""Schema of ``submit`` for environments whose tasks ask for an answer."""
GIVE_UP_SCHEMA = function_schema(
    GIVE_UP,
    "End the episode without a solution, because the task cannot be done as it is stated. Nothing is graded.",
    parameters_schema({"reason": {"type": "string", "description": "why it cannot be done"}}, ("reason",)),
)
"""Schema of ``give_up``, in every environment."""
_MAY_GIVE_UP = "- When the task cannot be done as it is stated, call give_up with the reason: it ends the episode.\n"


@dataclass(frozen=True)
class Opening:
    """What an episode shows its agent at the start."""

    prompt: str
    """The statement and the rules."""
    tools: list[dict[str, Any]]
    """Schemas of the tools, in OpenAI's function style."""
    workdir: str | None = None
    """Folder that relative paths start from; None in an environment without files."""
    files: Sequence[str] = ()
    """Paths that the agent can list: what hints may name."""
    sandbox: SandboxReport | None = None
    """How strongly the episode is isolated; None without a sandbox."""


def with_give_up(opening: Opening, task: Task) -> Opening:
    """Return the opening with ``give_up`` among its tools and rules, when the task offers it.

    Tasks that can be solved offer it as well as those that cannot, so that its presence says nothing.
    """
    if not task.features.get(MAY_GIVE_UP):
        return opening
    rules = opening.prompt.rstrip()
    gap = "\n" if rules.rpartition("\n")[2].startswith("- ") else "\n\n"
    return replace(opening, prompt=f"{rules}{gap}{_MAY_GIVE_UP}", tools=[*opening.tools, GIVE_UP_SCHEMA])


@dataclass(frozen=True)
class NoKnobs:
    """Knobs of an environment that has none."""


def _split_names(value: Any, info: ValidationInfo) -> Any:
    """Return names with commas between them, or a list of names, as a tuple. Raises ValueError for anything else."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"must be names with commas between them, such as {info.field_name}=first,second")
    return tuple(names)


Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
"""Type of a knob that takes names: ``a,b`` or a list."""


def read_knobs(environment: type[Environment], values: Mapping[str, Any]) -> Any:
    """Return the environment's knobs with these values. Raises ValueError for an unknown knob or a bad value."""
    kind = environment.knobs()
    names = [field.name for field in fields(kind)]
    for name in values:
        if name not in names:
            raise ValueError(did_you_mean("knob", name, names))
    types = get_type_hints(kind, include_extras=True)
    checks: dict[str, Any] = {name: (types[name], ...) for name in values}
    try:
        checked = create_model(kind.__name__, __config__=ConfigDict(strict=True), **checks).model_validate(dict(values))
        return kind(**{name: getattr(checked, name) for name in values})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        raise ValueError(f"knob {first['loc'][0]} {problem}, got {values[str(first['loc'][0])]!r}") from None


class Environment(ABC):
    """Base of what an environment declares (its tools, tasks, knobs, rows and solutions) and of how it plays.

    Third parties register a subclass of ``BaseSession`` in the entry-point group ``etude.environments``; the first line
    of its docstring describes it.
    """

    makes_tasks: ClassVar[bool] = False
    """Whether the environment makes its own tasks; else they come from a folder."""

    # --- what an environment declares -------------------------------------------------------------------------

    @classmethod
    def knobs(cls) -> type:
        """Return the dataclass of the environment's settings, each with a default and a docstring."""
        return NoKnobs

    @classmethod
    def tasks(cls, folder: Path | None = None, knobs: Any = None) -> Tasks:
        """Return the task set in ``folder``, an empty one without a folder. Raises TaskSetError, ValueError."""
        return TaskSet.load(folder) if folder else TaskSet([])

    @classmethod
    def tools(cls, knobs: Any = None) -> list[dict[str, Any]]:
        """Return the schemas of the tools that are known before any reset, ``submit`` among them."""
        return [SUBMIT_SCHEMA]

    @classmethod
    def solve(cls, task: Task) -> Solution:
        """Return how a scripted agent solves the task; by default it submits the answer of an ``answer`` verifier.

        Raises GraderError for a task whose solution the environment does not know.
        """
        if isinstance(task.verifier, AnswerVerifier):
            return Solution(submission=call(SUBMIT, answer=task.verifier.answer))
        raise GraderError(f"no solution of task {task.task_id!r} is known; write {cls.__name__}.solve")

    # --- how an environment plays -----------------------------------------------------------------------------

    @classmethod
    def choose_tools(cls, names: Sequence[str] | None) -> list[str]:
        """Return the chosen tools in the environment's order (None: all). Raises UnknownName."""
        registered = list(parameters_of(cls.tools()))
        for name in names or ():
            if name not in registered:
                raise UnknownName(did_you_mean("tool", str(name), registered))
        return [name for name in registered if names is None or name in names]

    async def prepare(self, task: Task) -> None:
        """Make what the first reset to a task would make; by default there is nothing. Raises as ``open_world``."""
        return

    async def open_world(self, task: Task, tools: list[str]) -> Opening:
        """Prepare the world of an episode at its start, and return what its agent is shown.

        Raises SandboxError, GraderError or SnapshotError when the machine fails: the episode is void then.
        """
        chosen = [tool for tool in self.tools() if tool["function"]["name"] in tools]
        return Opening(task.problem_statement, chosen)

    async def restore_world(self, layer: SavedLayer | None) -> None:
        """Bring the opened world to a saved state (None: to its start)."""
        return

    async def save_world(self) -> SavedLayer | None:
        """Return the state of the world, None where it cannot be saved: then forks play the actions again."""
        return None

    def changes_world(self, tool: str) -> bool:
        """Return whether a tool may change the world."""
        return True

    @abstractmethod
    async def run_tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, str]:
        """Run a checked call; return the status line and the body of its result.

        Raises ToolError for what the call does wrong, StatedFault for what no agent could foresee.
        """

    async def submission(self, task: Task, answer: str) -> Submission:
        """Freeze the world and return what is graded."""
        return Submission(task, answer=answer)

    async def stored_submission(self, task: Task, episode: Episode) -> Submission | None:
        """Return what a stored episode handed in, None where its record lacks a part; then its actions are replayed."""
        return None

    async def close_world(self) -> None:
        """Release what the world holds. Idempotent."""
        return
