"""The state before a turn of a stored episode, as the student saw it: its messages and its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...hints.transcript.parsing import Call, parse_turn, read_arguments, text_of
from ...hints.transcript.tool_schemas import parameters_of
from ...models import Episode, ErrorTurn, ToolMessage, Turn
from ..chat.tool_call_formats import as_text, given
from ..chat.turn_encoding import CLOSE, OPEN

Message = dict[str, Any]
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
        """As an endpoint with native calls takes them; ``decoded`` as ``as_message`` has them."""
        said = [{"role": "system", "content": self.system}] if self.system else []
        said.append({"role": "user", "content": self.episode.prompt})
        plain = None if decoded else plain_names(self.episode.tools)
        for number, turn in enumerate(self.past):
            said += _native(turn, number, plain)
        return said

    def plain_tools(self) -> list[Message]:
        """The tools as such an endpoint takes them."""
        plain = plain_names(self.episode.tools)
        return [renamed(tool, plain) for tool in self.episode.tools]

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


def as_message(action: Mapping[str, Any], turn: int) -> Message:
    """An action as an assistant's message for chat templates: its thought and words are ``content``, arguments are
    objects. A call that could not be read has its arguments as the text that they were, and what was no name stays.
    ``raw``, where it is known, is all that the model wrote.
    """
    message = {"role": "assistant", "content": _worded(action)}
    if isinstance(action.get("raw"), str):
        message["raw"] = action["raw"]
    calls = [
        {"id": call.id, "type": "function", "function": {"name": name, "arguments": wrote}}
        for call, name, wrote in _calls(action, turn)
    ]
    return {**message, "tool_calls": calls} if calls else message


def plain_names(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By each tool's name the one that it has at endpoints, which take only letters, digits, ``_`` and ``-``."""
    plain: dict[str, str] = {}
    for name in parameters_of(tools):
        short, number = _plain(name), 1
        while short in plain.values():
            number += 1
            short = f"{_plain(name)[:60]}_{number}"
        plain[name] = short
    return plain


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def renamed(call: Any, names: Mapping[str, str]) -> Any:
    """A tool, or a call of one, with another name; whatever it is, when there is none for it."""
    if not isinstance(call, Mapping):
        return call
    if isinstance(call.get("function"), Mapping):
        return {**call, "function": renamed(call["function"], names)}
    name = call.get("name")
    return {**call, "name": names[name]} if isinstance(name, str) and name in names else call


def _calls(action: Mapping[str, Any], turn: int) -> list[tuple[Call, Any, Any]]:
    """Each call as it is read, its name as it was given, and its arguments, or the text of what are none."""
    found = []
    for call, (name, wrote) in zip(parse_turn(action, turn, strict=False).calls, given(action), strict=True):
        arguments, problem = read_arguments(wrote)
        found.append((call, name, as_text(wrote) if problem else arguments))
    return found


def _for_endpoints(action: Mapping[str, Any], turn: int, plain: Mapping[str, str]) -> Message:
    """An assistant's message with unique ids, plain names, and what could not be read in an object, as text."""
    message = {"role": "assistant", "content": parse_turn(action, turn).text}
    seen: set[str] = set()
    calls = []
    for index, (call, _, wrote) in enumerate(_calls(action, turn)):
        call_id = call.id if call.id not in seen else f"{call.id}_{turn}_{index}"
        seen.add(call_id)
        arguments = json.dumps({"malformed": as_text(wrote)} if call.problem else wrote, ensure_ascii=False)
        function = {"name": plain.get(call.name) or _plain(call.name), "arguments": arguments}
        calls.append({"id": call_id, "type": "function", "function": function})
    return {**message, "tool_calls": calls} if calls else message


def _worded(action: Mapping[str, Any]) -> str:
    """What was thought and said, wherever the thought was kept: in the text, beside it, or in ``raw`` alone. One whose
    opening tag stood in the prompt gets it back."""
    text, raw = parse_turn(action, 0).text, action.get("raw")
    if OPEN in text:
        return text
    thought, closed, said = text.partition(CLOSE)
    if not closed:
        beside = text_of(action.get("reasoning_content")).strip()
        thought, said = raw.rpartition(CLOSE)[0] if isinstance(raw, str) else "", text
        thought = thought or (f"{beside}\n" if beside else "")
    opened = "" if thought.lstrip().startswith(OPEN) else f"{OPEN}\n"
    return f"{opened}{thought}{CLOSE}\n\n{said}" if thought.strip() else said


def _native(turn: Turn, number: int, plain: Mapping[str, str] | None) -> list[Message]:
    """A past turn and what answered it; ``plain`` None: as templates take them."""
    message = as_message(turn.action, number) if plain is None else _for_endpoints(turn.action, number, plain)
    results = [answer for answer in turn.messages if answer.role == "tool"]
    back = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            **({"name": call["function"]["name"]} if plain is None else {}),
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
    text = parse_turn(action, 0).text
    calls = [
        f'<tool_call>\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {as_text(wrote)}}}\n</tool_call>'
        for _, name, wrote in _calls(action, 0)
    ]
    return "\n".join([text, *calls] if text else calls)
