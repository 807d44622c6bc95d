"""The state before a turn of a stored episode, as the student saw it: its messages and its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...hints.parsing import parse_turn
from ...models import Episode, ErrorTurn, ToolMessage, Turn
from .settings import ReplayError

Message = dict[str, Any]
FILE_NAME = "episodes.jsonl"
_TOOLS = (
    "# Tools\n\nYou may call one or more functions. Their signatures are in <tools></tools>:\n"
    "<tools>\n{tools}\n</tools>"
    "\n\nWrite each call as a JSON object in tags:\n"
    '<tool_call>\n{{"name": <function-name>, "arguments": <args-json-object>}}\n</tool_call>'
)


@dataclass(frozen=True)
class State:
    """What stands before turn ``turn``. ``error`` is the first error that the student made in it, if it made one."""

    episode: Episode
    turn: int
    system: str = ""

    @property
    def past(self) -> list[Turn]:
        return self.episode.turns[: self.turn]

    @property
    def action(self) -> dict[str, Any]:
        """What the student did."""
        return self.episode.turns[self.turn].action

    @property
    def error(self) -> ErrorTurn | None:
        return next((error for error in self.episode.error_turns if is_own_error(error, self.turn)), None)

    @property
    def key(self) -> str:
        return f"{self.episode.episode_id}:{self.turn}"

    def messages(self, *, decoded: bool = False) -> list[Message]:
        """As an endpoint with native calls takes them; ``decoded`` as chat templates do."""
        said = [{"role": "system", "content": self.system}] if self.system else []
        said.append({"role": "user", "content": self.episode.prompt})
        for number, turn in enumerate(self.past):
            said += _native(turn, number, decoded)
        return said

    def texts(self) -> list[Message]:
        """The same with tools and calls in the text, for endpoints without native calls."""
        tools = _TOOLS.format(tools="\n".join(json.dumps(tool, ensure_ascii=False) for tool in self.episode.tools))
        said: list[Message] = [{"role": "system", "content": f"{self.system}\n\n{tools}".strip()}]
        said.append({"role": "user", "content": self.episode.prompt})
        for turn in self.past:
            answers = [_tagged(message) for message in turn.messages]
            said += [{"role": "assistant", "content": _as_text(turn.action)}]
            said += [{"role": "user", "content": "\n".join(answers)}] if answers else []
        return said


def is_own_error(error: ErrorTurn, turn: int) -> bool:
    """Whether turn ``turn`` erred, and could have known better."""
    return error.turn == turn and error.site == "erring" and not error.injected


def states(episodes: Sequence[Episode], system: str = "") -> Iterator[State]:
    """Before every turn of every episode, in order."""
    for episode in episodes:
        for turn in range(len(episode.turns)):
            yield State(episode, turn, system)


def read_episodes(run: Path) -> list[Episode]:
    """The valid episodes of a run's folder or file. Raises ReplayError."""
    file = run / FILE_NAME if run.is_dir() else run
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ReplayError(f"cannot read {file} ({error.strerror}): play some with `etude run --out {run}`") from None
    found: dict[str, Episode] = {}
    for number, line in enumerate(filter(str.strip, lines), start=1):
        try:
            row = json.loads(line)
            episode = Episode(**{name: value for name, value in row.items() if name in Episode.model_fields})
        except (ValueError, ValidationError, AttributeError, TypeError):
            raise ReplayError(f"{file}:{number} is no episode: remove the line, or play the run again") from None
        if episode.reward is not None and episode.reward.valid and episode.turns:
            found[episode.episode_id] = episode
    if not found:
        raise ReplayError(f"{file} holds no valid episode: play some with `etude run --out {run}`")
    return list(found.values())


def as_message(action: Mapping[str, Any], turn: int, *, decoded: bool = False) -> Message:
    """An action as an assistant's message: unique ids, plain names, arguments that are JSON objects.

    Endpoints are stricter than what models write: for them a call that could not be read is wrapped in an object, as
    text. ``decoded``, for templates: arguments as objects, and what is none as the text that it was.
    """
    parsed = parse_turn(action, turn)
    message: Message = {"role": "assistant", "content": parsed.text}
    seen: set[str] = set()
    calls = []
    for index, call in enumerate(parsed.calls):
        call_id = call.id if call.id not in seen else f"{call.id}_{turn}_{index}"
        seen.add(call_id)
        given: Any = {"malformed": call.raw} if call.problem else call.arguments
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unnamed"
        arguments = json.dumps(given, ensure_ascii=False) if not decoded else call.raw or call.arguments
        calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
    return {**message, "tool_calls": calls} if calls else message


def _native(turn: Turn, number: int, decoded: bool) -> list[Message]:
    message = as_message(turn.action, number, decoded=decoded)
    results = [answer for answer in turn.messages if answer.role == "tool"]
    back = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            **({"name": call["function"]["name"]} if decoded else {}),
            "content": answer.content,
        }
        for call, answer in zip(message.get("tool_calls", []), results, strict=False)
    ]
    others = [{"role": "user", "content": answer.content} for answer in turn.messages if answer.role != "tool"]
    return [message, *back, *others]


def _tagged(message: ToolMessage) -> str:
    tool = message.role == "tool"
    return f"<tool_response>\n{message.content}\n</tool_response>" if tool else message.content


def _as_text(action: Mapping[str, Any]) -> str:
    """What the model wrote; for a turn that was not made in text, what it would have written."""
    if isinstance(action.get("raw"), str):
        return str(action["raw"])
    parsed = parse_turn(action, 0)
    calls = [
        f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.arguments}, ensure_ascii=False)}\n</tool_call>"
        for call in parsed.calls
    ]
    return "\n".join([parsed.text, *calls] if parsed.text else calls)
