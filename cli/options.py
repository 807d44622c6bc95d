"""Options that several commands share, and the values they are turned into.

This module and those in ``commands/`` evaluate annotations at once: for typer to evaluate them as texts takes longer.
"""

import functools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..environments.agents.openai import ModelOptions
    from ..environments.tasks.task_set import Tasks

OPENAI = "https://api.openai.com/v1"
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes of a command that Ctrl-C or SIGTERM ended."""


def _known_sandbox(name: str) -> str:
    """Return the name of a sandbox backend that exists. Raises UnknownName, before any long work starts."""
    from ..environments.sandbox.registry import SANDBOXES
    from ..errors import UnknownName
    from ..registry import did_you_mean

    chosen = os.environ.get("ETUDE_SANDBOX") or name if name == "auto" else name
    if chosen != "auto" and chosen not in SANDBOXES.paths():
        place = "" if chosen == name else "ETUDE_SANDBOX: "
        raise UnknownName(place + did_you_mean("sandbox", chosen, [*SANDBOXES.paths(), "auto"]))
    return name


def names_of(kind: str, *more: str) -> Callable[[str], list[str]]:
    """Return a shell completion with the names of `etude list KIND` and ``more``, also after a comma."""

    def complete(incomplete: str) -> list[str]:
        from .names import names_of as names

        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in (*names(kind), *more) if name.startswith(begun)]

    return complete


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Do N things at once.")]
Questions = Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Ask N questions at once.")]
Sandbox = Annotated[
    str,
    typer.Option(
        "--sandbox",
        callback=_known_sandbox,
        autocompletion=names_of("sandboxes", "auto"),
        help="Use this sandbox; 'auto' takes the strongest that works.",
    ),
]
EnvName = Annotated[
    str | None,
    typer.Option(
        "--env",
        autocompletion=names_of("environments"),
        help="Play this environment, such as drill; default: $ETUDE_ENV, or that of the tasks.",
    ),
]
AgentName = Annotated[
    str,
    typer.Option("--agent", "-a", autocompletion=names_of("agents"), help="Play this agent; see `etude list agents`."),
]
Url = Annotated[str | None, typer.Option(help="Play on the server at this address; default: in this process.")]
TasksFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder that holds tasks.jsonl, or hub:USER/NAME@REVISION.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, with its episodes.jsonl.")]

# Options for agents that call a model.
BaseUrl = Annotated[str, typer.Option(envvar="OPENAI_BASE_URL", help="Call openai:MODEL at this endpoint.")]
ApiKeyEnv = Annotated[str, typer.Option(help="Read the endpoint's key from this environment variable.")]
ToolFormat = Annotated[str, typer.Option(help="Ask for 'native' tool calls, or for 'text' with <tool_call> tags.")]
Temperature = Annotated[float | None, typer.Option(min=0, help="Sample at this temperature; default: the endpoint's.")]
MaxTokens = Annotated[int, typer.Option(min=1, metavar="N", help="Limit each answer to N tokens.")]
Timeout = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Give up an answer after this many seconds.")]
Prices = Annotated[str, typer.Option(metavar="IN,OUT", help="Price in USD per million tokens read and written.")]
Dollars = Annotated[
    float | None, typer.Option(min=0, metavar="USD", help="Stop after this many USD; needs --price; default: no limit.")
]
TokenBudget = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Stop after N tokens read and written; default: no limit.")
]


def model_options(
    base_url: BaseUrl = OPENAI,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    tool_format: ToolFormat = "native",
    temperature: Temperature = None,
    max_tokens: MaxTokens = 4096,
    timeout: Timeout = 300.0,
    price: Prices = "0,0",
    budget: Dollars = None,
    token_budget: TokenBudget = None,
) -> "ModelOptions":
    """Return the options of an agent that calls a model. Raises LLMError for a price that cannot be read."""
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
        budget=Budget(usd=budget, tokens=token_budget),
    )


def asks_model(parameter: str, without: Sequence[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of ``model_options``; their result is passed to the command as ``parameter``."""
    options = [option for option in signature(model_options).parameters.values() if option.name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            model = model_options(**{option.name: values.pop(option.name) for option in options})
            command(**values, **{parameter: model})

        parameters = list(signature(command).parameters.values())
        place = next(i for i, existing in enumerate(parameters) if existing.name == parameter)
        parameters[place : place + 1] = options
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads the options from it
        return run

    return decorate


def tasks_of(name: str | Path) -> "Tasks":
    """Return the task set in a folder or on the Hub, or the tasks of an environment that makes its own.

    Raises TaskSetError and HubError.
    """
    from difflib import get_close_matches

    from ..environments import ENVIRONMENTS
    from ..environments.tasks.task_set import TaskSet
    from ..errors import TaskSetError

    if str(name) in ENVIRONMENTS.paths() and ENVIRONMENTS.load(str(name)).makes_tasks:
        tasks: Tasks = ENVIRONMENTS.load(str(name)).tasks()
        return tasks
    try:
        return TaskSet.load(Path(name))
    except TaskSetError as error:
        makers = [maker for maker in ENVIRONMENTS.paths() if ENVIRONMENTS.load(maker).makes_tasks]
        near = get_close_matches(str(name), makers, n=1, cutoff=0.5)
        if not near or Path(name).exists():
            raise
        raise TaskSetError(f"{error}. Did you mean {near[0]!r}?") from None


def key_values(pairs: Sequence[str], option: str = "--knob") -> dict[str, Any]:
    """Parse the ``KEY=VALUE`` pairs of ``option``.

    A value that is JSON (a number, true, a list) is parsed, any other is a string.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        try:
            values[key] = json.loads(text)
        except json.JSONDecodeError:
            values[key] = text
    return values


@contextmanager
def sigterm_interrupts() -> Iterator[list[int]]:
    """Let SIGTERM do what Ctrl-C does, with exit code 143. Yields a list that the received signal is added to."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def interrupt(number: int, frame: Any) -> None:
        received.append(number)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # a shell starts background jobs with SIGINT ignored
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield received
    except KeyboardInterrupt:
        raise typer.Exit(TERMINATED if received else INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
