"""The state before a turn of a stored episode, as the student saw it: its messages and its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....hints.transcript.parsing import Call, parse_turn, read_arguments, text_of
from ....hints.transcript.tool_schemas import parameters_of
from ....models import Episode, ErrorTurn, ToolMessage, Turn
from ...chat.tool_call_formats import as_text, written_calls
from ...chat.turn_encoding import CLOSE, OPEN

Message = dict[str, Any]
_TOOLS = (
    "# Tools\n\nYou may call one or more functions. Their signatures are in <tools></tools>:\n"
    "<tools>\n{tools}\n</tools>"
    "\n\nWrite each call as a JSON object in tags:\n"
    '<tool_call>\n{{"name": <function-name>, "arguments": <args-json-object>}}\n</tool_call>'
)


@dataclass(frozen=True)
class State:
    """The state before turn ``turn`` of an episode, with the system message that the student had."""

    episode: Episode
    turn: int
    system: str = ""

    @property
    def past(self) -> list[Turn]:
        """Return the turns before this one."""
        return self.episode.turns[: self.turn]

    @property
    def action(self) -> dict[str, Any]:
        """Return the student's action in this turn."""
        return self.episode.turns[self.turn].action

    @property
    def error(self) -> ErrorTurn | None:
        """Return the first error that the student made in this turn; None without one."""
        return next((error for error in self.episode.error_turns if is_own_error(error, self.turn)), None)

    @property
    def key(self) -> str:
        """Return ``EPISODE:TURN``, the state's name in logs and pairs."""
        return f"{self.episode.episode_id}:{self.turn}"

    def messages(self, *, decoded: bool = False) -> list[Message]:
        """Return the dialogue for an endpoint with native calls; ``decoded``: for chat templates (``as_message``)."""
        dialogue = [{"role": "system", "content": self.system}] if self.system else []
        dialogue.append({"role": "user", "content": self.episode.prompt})
        plain = None if decoded else plain_names(self.episode.tools)
        for number, turn in enumerate(self.past):
            dialogue += _native(turn, number, plain)
        return dialogue

    def plain_tools(self) -> list[Message]:
        """Return the tools for an endpoint with native calls."""
        plain = plain_names(self.episode.tools)
        return [renamed(tool, plain) for tool in self.episode.tools]

    def texts(self) -> list[Message]:
        """Return the dialogue with tools and calls in its text, for an endpoint without native calls."""
        tools = _TOOLS.format(tools="\n".join(json.dumps(tool, ensure_ascii=False) for tool in self.episode.tools))
        dialogue: list[Message] = [{"role": "system", "content": f"{self.system}\n\n{tools}".strip()}]
        dialogue.append({"role": "user", "content": self.episode.prompt})
        for turn in self.past:
            answers = [_tagged(message) for message in turn.messages]
            dialogue += [{"role": "assistant", "content": _turn_text(turn.action)}]
            dialogue += [{"role": "user", "content": "\n".join(answers)}] if answers else []
        return dialogue


def is_own_error(error: ErrorTurn, turn: int) -> bool:
    """Return whether the agent itself erred in turn ``turn``: an injected fault is not its error."""
    return error.turn == turn and error.site == "erring" and not error.injected


def own_error_turns(episode: Episode) -> set[int]:
    """Return the turns in which the agent itself erred."""
    return {error.turn for error in episode.error_turns if is_own_error(error, error.turn)}


def states(episodes: Sequence[Episode], system: str = "") -> Iterator[State]:
    """Yield the state before every turn of every episode, in order."""
    for episode in episodes:
        for turn in range(len(episode.turns)):
            yield State(episode, turn, system)


def as_message(action: Mapping[str, Any], turn: int) -> Message:
    """Return an action as an assistant's message for chat templates.

    Thought and words are its ``content``; arguments are objects. A malformed call keeps its arguments as text, and
    its name as it was. ``raw``, where it is known, is everything that the model wrote.
    """
    message = {"role": "assistant", "content": _content(action)}
    if isinstance(action.get("raw"), str):
        message["raw"] = action["raw"]
    calls = [
        {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call, name, arguments in _calls(action, turn)
    ]
    return {**message, "tool_calls": calls} if calls else message


def plain_names(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Map each tool's name to a unique one that endpoints accept: letters, digits, ``_`` and ``-``, at most 64."""
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
    """Return a tool, or a call of one, under its name in ``names``; unchanged when it has none there."""
    if not isinstance(call, Mapping):
        return call
    if isinstance(call.get("function"), Mapping):
        return {**call, "function": renamed(call["function"], names)}
    name = call.get("name")
    return {**call, "name": names[name]} if isinstance(name, str) and name in names else call


def _calls(action: Mapping[str, Any], turn: int) -> list[tuple[Call, Any, Any]]:
    """Return each call as parsed, its name as written, and its arguments: an object, or text when malformed."""
    calls = []
    for call, (name, written) in zip(parse_turn(action, turn, strict=False).calls, written_calls(action), strict=True):
        arguments, problem = read_arguments(written)
        calls.append((call, name, as_text(written) if problem else arguments))
    return calls


def _endpoint_message(action: Mapping[str, Any], turn: int, plain: Mapping[str, str]) -> Message:
    """Return an assistant's message with unique ids, plain names, and malformed arguments as text in an object."""
    message = {"role": "assistant", "content": parse_turn(action, turn).text}
    used_ids: set[str] = set()
    calls = []
    for index, (call, _, written) in enumerate(_calls(action, turn)):
        call_id = call.id if call.id not in used_ids else f"{call.id}_{turn}_{index}"
        used_ids.add(call_id)
        arguments = json.dumps({"malformed": as_text(written)} if call.problem else written, ensure_ascii=False)
        function = {"name": plain.get(call.name) or _plain(call.name), "arguments": arguments}
        calls.append({"id": call_id, "type": "function", "function": function})
    return {**message, "tool_calls": calls} if calls else message


def _content(action: Mapping[str, Any]) -> str:
    """Return thought and words, wherever the thought is stored: in the text, in ``reasoning_content``, or in ``raw``.

    A thought whose opening tag was part of the prompt gets the tag back.
    """
    text, raw = parse_turn(action, 0).text, action.get("raw")
    if OPEN in text:
        return text
    thought, closed, words = text.partition(CLOSE)
    if not closed:
        reasoning = text_of(action.get("reasoning_content")).strip()
        thought, words = raw.rpartition(CLOSE)[0] if isinstance(raw, str) else "", text
        thought = thought or (f"{reasoning}\n" if reasoning else "")
    opened = "" if thought.lstrip().startswith(OPEN) else f"{OPEN}\n"
    return f"{opened}{thought}{CLOSE}\n\n{words}" if thought.strip() else words


def _native(turn: Turn, number: int, plain: Mapping[str, str] | None) -> list[Message]:
    """Return a past turn and its answers; ``plain`` None: for chat templates."""
    message = as_message(turn.action, number) if plain is None else _endpoint_message(turn.action, number, plain)
    results = [answer for answer in turn.messages if answer.role == "tool"]
    tool_messages = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            **({"name": call["function"]["name"]} if plain is None else {}),
            "content": answer.content,
        }
        for call, answer in zip(message.get("tool_calls", []), results, strict=False)
    ]
    others = [{"role": "user", "content": answer.content} for answer in turn.messages if answer.role != "tool"]
    return [message, *tool_messages, *others]


def _tagged(message: ToolMessage) -> str:
    is_tool = message.role == "tool"
    return f"<tool_response>\n{message.content}\n</tool_response>" if is_tool else message.content


def _turn_text(action: Mapping[str, Any]) -> str:
    """Return what the model wrote; for a turn with native calls, the same turn with its calls in tags."""
    if isinstance(action.get("raw"), str):
        return str(action["raw"])
    text = parse_turn(action, 0).text
    calls = []
    for _, name, written in _calls(action, 0):
        body = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {as_text(written)}}}'
        calls.append(f"<tool_call>\n{body}\n</tool_call>")
    return "\n".join([text, *calls] if text else calls)
