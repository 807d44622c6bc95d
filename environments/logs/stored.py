"""An episode of a log as an Episode with its error turns, and as the row of a run.

Texts of messages stay as the log has them; the failure flags that an Episode has no field for are in the row's
settings, so that a row can be annotated again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import hints
from ...errors import LogError
from ...hints.foreign import detect
from ...hints.foreign.drafts import LATE_TURNS, failure_flag
from ...hints.transcript.parsing import parse_turn, text_of
from ...models import Episode, Reward, ToolMessage, Turn
from ..annotations import annotated
from ..runs.reader import Stored
from .record import LogEpisode, Message

MAX_TURNS = 10_000
"""Turns of one episode."""
MAX_TEXT = 1_000_000
"""Characters of one message; a longer one loses its middle."""
MAX_TOOLS = 1000
_TEXT_DIALECTS = ("hermes", "react")
"""Dialects in which calls and results are written as text."""
Flags = dict[str, bool]
"""Failure flags of results: ``TURN:INDEX``, both from 0, the index among the messages after the turn."""


def stored_episode(log: LogEpisode, about: Mapping[str, Any], names: Mapping[str, str], sample: int) -> Stored:
    """Return an episode of a log, annotated.

    ``about`` is recorded in the settings; ``names`` holds the ``task_id``, ``episode_id`` and ``agent``. Raises
    LogError for an episode without a turn, and for one with too many.
    """
    dialect = detect(log.messages)
    turns, flags = _turns(log, dialect)
    if not turns or len(turns) > MAX_TURNS:
        reason = f"has more than {MAX_TURNS} turns" if turns else "has no message of an agent"
        raise LogError(f"{log.place}: the episode {reason}")
    valid = log.reward is not None and 0.0 <= log.reward <= 1.0
    episode = Episode(
        episode_id=names["episode_id"],
        task_id=names["task_id"],
        prompt=_prompt(log.messages),
        tools=log.tools[:MAX_TOOLS],
        turns=turns,
        error_turns=hints.annotate(log.messages, log.tools, dialect=_foreign(dialect)),
        reward=Reward(value=log.reward, components=log.scores) if valid and log.reward is not None else None,
        end="budget" if log.is_cut_by_limit else None,
        seconds=log.seconds,
    )
    record = {**about, "place": log.place, "end": log.end, "reward": log.reward, "scores": log.scores, "flags": flags}
    return Stored(episode, names["agent"], sample, {"annotate": "state", "log": record})


def annotated_again(stored: Stored) -> Stored:
    """Return a stored episode with the error turns that today's code finds."""
    episode = stored.episode
    if stored.log is None:
        errors = annotated(episode)
    else:
        errors = hints.annotate(messages_of(stored), episode.tools, episode.files, dialect="openai")
    update = episode.model_copy(update={"error_turns": errors})
    return Stored(update, stored.agent, stored.sample, stored.settings, stored.cause)


def row_of(stored: Stored) -> dict[str, Any]:
    """Return the fields of a row besides those of its Episode."""
    about = {"agent": stored.agent, "cause": stored.cause, "sample": stored.sample}
    return {**about, "settings": stored.settings, "usage": {}}


def _foreign(dialect: str) -> str:
    """Return the dialect in which a log is judged: a foreign result may begin like one of our status lines."""
    return "openai" if dialect == "etude" else dialect


def _text(value: Any) -> str:
    text = text_of(value)
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]} ({len(text) - MAX_TEXT} characters are not imported) {text[-half:]}"


def _prompt(messages: Sequence[Message]) -> str:
    """Return the texts before the first turn."""
    texts = []
    for message in messages:
        if message.get("role") == "assistant":
            break
        texts.append(_text(message.get("content")))
    return "\n\n".join(text for text in texts if text)


def _turns(log: LogEpisode, dialect: str) -> tuple[list[Turn], Flags]:
    return (_turns_of_text(log, dialect), {}) if dialect in _TEXT_DIALECTS else _turns_of_calls(log.messages)


def _turns_of_text(log: LogEpisode, dialect: str) -> list[Turn]:
    """Return turns whose calls were written as text, with these calls in fields, as the report shows them."""
    turns = []
    for past in hints.read(log.messages, log.tools, dialect):
        calls = [_written_call(call) for call in past.calls]
        results = [
            ToolMessage(tool_call_id=call.id, name=call.name, content=_text(call.body))
            for call in past.calls
            if call.status.word != "none"
        ]
        notes = [ToolMessage(role="user", content=_text(note)) for note in past.notes]
        turns.append(Turn(action={"content": _text(past.text), "tool_calls": calls}, messages=[*results, *notes]))
    return turns


def _written_call(call: hints.PastCall) -> dict[str, Any]:
    """Return a call with its arguments; those that could not be read stay text."""
    arguments = (call.raw or call.problem) if call.problem else dict(call.arguments)
    return {"id": call.id, "name": call.name, "arguments": arguments}


def _turns_of_calls(messages: Sequence[Message]) -> tuple[list[Turn], Flags]:
    """Return turns whose calls are in fields; a result that comes late stands with its call."""
    turns: list[Turn] = []
    call_ids: list[list[str]] = []
    flags: Flags = {}
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            action = _action(message)
            turns.append(Turn(action=action))
            call_ids.append([call.id for call in parse_turn(action, len(turns) - 1, strict=False).calls])
        elif turns and role in ("tool", "function"):
            at = _turn_of(text_of(message.get("tool_call_id")), turns, call_ids)
            flag = failure_flag(message)
            if flag is not None:
                flags[f"{at}:{len(turns[at].messages)}"] = flag
            turns[at].messages.append(_result(message))
        elif turns:
            turns[-1].messages.append(ToolMessage(role="user", content=_text(message.get("content"))))
    return turns, flags


def _turn_of(call_id: str, turns: Sequence[Turn], call_ids: Sequence[Sequence[str]]) -> int:
    """Return the index of the turn that a result answers: the last one, or one shortly before with a call of its id."""
    last = len(turns) - 1
    if not call_id or call_id in call_ids[last]:
        return last
    for at in range(last - 1, max(-1, last - 1 - LATE_TURNS), -1):
        answered = {message.tool_call_id for message in turns[at].messages}
        if call_id in call_ids[at] and call_id not in answered:
            return at
    return last


def _action(message: Message) -> dict[str, Any]:
    """Return the fields of an assistant's message that an Episode keeps, without what cannot be written down."""
    action: dict[str, Any] = {"content": _text(message.get("content") or message.get("text"))}
    calls = message.get("tool_calls")
    old = message.get("function_call")
    if not calls and isinstance(old, Mapping):
        calls = [old]
    if calls not in (None, []):
        action["tool_calls"] = calls
    elif "tool" in message:
        action |= {name: message.get(name) for name in ("id", "tool", "arguments") if name in message}
    thought = _text(message.get("reasoning_content") or message.get("reasoning"))
    return {**action, "reasoning_content": thought} if thought else action


def _result(message: Message) -> ToolMessage:
    name = message.get("name")
    return ToolMessage(
        tool_call_id=text_of(message.get("tool_call_id")),
        name=text_of(name) if isinstance(name, str) else "",
        content=_text(message.get("content")),
    )


def messages_of(stored: Stored) -> list[Message]:
    """Return the messages of an episode as ``hints`` reads them, those of a log with the flags of its results."""
    if stored.log is None:
        return hints.transcript(stored.episode)
    flags = stored.log.get("flags")
    recorded = flags if isinstance(flags, Mapping) else {}
    messages: list[Message] = [{"role": "user", "content": stored.episode.prompt}]
    for number, turn in enumerate(stored.episode.turns):
        messages.append({**turn.action, "role": "assistant"})
        for index, message in enumerate(turn.messages):
            flag = recorded.get(f"{number}:{index}")
            more = {"is_error": flag} if isinstance(flag, bool) else {}
            messages.append({**message.model_dump(), **more})
    return messages
