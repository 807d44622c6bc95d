"""Options that several commands take, each told once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..environments.agents.openai import ModelOptions
    from ..environments.tasks.task_set import Tasks

OPENAI = "https://api.openai.com/v1"


def _known_sandbox(name: str) -> str:
    """Refuse a misspelt backend before hours of work that would need it. Raises UnknownName."""
    from ..environments.sandbox.registry import SANDBOXES
    from ..errors import UnknownName
    from ..registry import did_you_mean

    chosen = os.environ.get("ETUDE_SANDBOX") or name if name == "auto" else name
    if chosen != "auto" and chosen not in SANDBOXES.paths():
        place = "" if chosen == name else "ETUDE_SANDBOX: "
        raise UnknownName(place + did_you_mean("sandbox", chosen, [*SANDBOXES.paths(), "auto"]))
    return name


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes, or episodes, at once.")]
Sandbox = Annotated[
    str,
    typer.Option("--sandbox", callback=_known_sandbox, help="Sandbox backend; 'auto' takes the strongest that works."),
]
Url = Annotated[str | None, typer.Option(help="Play on this server instead of in this process.")]

# For agents that ask a model.
BaseUrl = Annotated[str, typer.Option(envvar="OPENAI_BASE_URL", help="For openai:MODEL: the endpoint's address.")]
ApiKeyEnv = Annotated[str, typer.Option(help="The environment variable that holds its key.")]
ToolFormat = Annotated[str, typer.Option(help="native tool calls, or text with <tool_call> tags.")]
Temperature = Annotated[float | None, typer.Option(min=0, help="Default: the endpoint's.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Tokens of one answer at most.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds that one answer may take.")]
Prices = Annotated[str, typer.Option(help="IN,OUT: USD per million tokens read and written.")]
Dollars = Annotated[float | None, typer.Option(min=0, help="USD that it may cost; needs --price.")]
TokenBudget = Annotated[int | None, typer.Option(min=0, help="Tokens that it may take.")]


def model_options(
    base_url: str,
    api_key_env: str,
    tool_format: str,
    temperature: float | None,
    max_tokens: int,
    timeout: float,
    price: str,
    usd: float | None,
    tokens: int | None,
) -> ModelOptions:
    """How the model is asked. Raises LLMError for a price that is none."""
    from ..environments.agents.openai import ModelOptions
    from ..llm import Budget, Price

    return ModelOptions(
        base_url=base_url,
        api_key_env=api_key_env,
        tool_format=tool_format,
        temperature=temperature,
        max_tokens=max_tokens,
        timeout_s=timeout,
        price=Price.read(price),
        budget=Budget(usd=usd, tokens=tokens),
    )


def tasks_of(name: str | Path) -> Tasks:
    """Return the task set in a folder, or the tasks of the environment with this name that makes its own.

    Raises TaskSetError.
    """
    from ..environments import ENVIRONMENTS
    from ..environments.tasks.task_set import TaskSet

    if str(name) in ENVIRONMENTS.paths() and ENVIRONMENTS.load(str(name)).makes_tasks:
        tasks: Tasks = ENVIRONMENTS.load(str(name)).tasks()
        return tasks
    return TaskSet.load(Path(name))
