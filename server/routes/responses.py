"""A rollout in OpenAI's Responses format, as hosts report it: its turns, and the errors in them.

The host's account knows more than the session: which calls were one turn, what the model said, and the calls that never
left the host's harness, which itself answers an unknown tool or broken JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import hints
from ...environments.annotations import tools_now
from ...hints import read_status
from ...hints.transcript.parsing import parse_turn
from ...models import Episode, ErrorTurn

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def error_turns(
    episode: Mapping[str, Any], response: Any, *, played: int | None = None, changed: Sequence[str] | None = None
) -> list[ErrorTurn]:
    """Those of ``response`` when it tells of any turn, else those that the session saw, where each call is a turn.

    ``episode`` is as it is served. Its first ``played`` turns (default: all) are the agent's, the rest only ended it.
    ``changed`` are the paths of the frozen diff, as far as it tells.
    """
    seen = Episode.model_validate(episode)
    messages = transcript(seen.prompt, seen.tools, items(response))
    if len(messages) == 1:
        messages = hints.transcript(seen.model_copy(update={"turns": seen.turns[:played]}))
    return hints.annotate(messages, tools_now(seen), seen.files, _injected(episode, messages), changed=changed)


def reply(
    episode: Mapping[str, Any], response: Any, turns: int | None, changed: Sequence[str] | None
) -> dict[str, Any]:
    """What ``/verify`` answers for a graded episode, as it is served; ``turns`` and ``changed`` as in ``error_turns``.

    ``reward`` is NeMo Gym's, ``reward_components`` too, and each component is a number of its own besides, because its
    metrics do not look into mappings. ``hints`` is one text, empty when there was nothing to say.
    """
    errors = error_turns(episode, response, played=turns, changed=changed)
    texts = list(dict.fromkeys(hint.text for error in errors for hint in error.hints))
    reward = episode["reward"]
    return {
        **reward["components"],
        "reward": reward["value"],
        "reward_components": reward["components"],
        "passed_fractions": reward["fractions"],
        "error_turns": [error.model_dump(mode="json") for error in errors],
        "n_error_turns": len(errors),
        "hints": "\n".join(texts),
        "findings": episode["findings"],
        "n_findings": len(episode["findings"]),
        "end": episode["end"],
        "assurance": reward["assurance"],
        "sandbox": episode["sandbox"],
        "task_id": episode["task_id"],
        "episode_id": episode["episode_id"],
    }


def items(response: Any) -> list[Mapping[str, Any]]:
    """The output items of a Responses object; none for anything else."""
    output = response.get("output") if isinstance(response, Mapping) else None
    return [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else []


def last_text(response: Any) -> str:
    """What the model said when it stopped; '' when it stopped with a call."""
    last = items(response)[-1:]
    return _text(last[0]) if last and last[0].get("type") == "message" else ""


def transcript(
    prompt: str, tools: Sequence[Mapping[str, Any]], output: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Output items as OpenAI chat messages. Items up to the first answer are one turn; a second text starts another."""
    known = {str(tool.get("function", tool).get("name")) for tool in tools}
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt, "dialect": "etude"}]
    calls: dict[str, dict[str, Any]] = {}
    for item in output:
        kind = item.get("type")
        if kind == "message":
            messages.append({"role": "assistant", "content": _text(item)})
        elif not isinstance(kind, str):
            continue
        elif kind in _CALLS:
            if messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            about = {"id": str(item.get("call_id") or ""), "name": str(item.get("name") or "")}
            call = calls[about["id"]] = {**about, "arguments": item.get(_CALLS[kind])}
            messages[-1].setdefault("tool_calls", []).append(call)
        elif kind in _OUTPUTS:
            call_id = str(item.get("call_id") or "")
            call = calls.get(call_id, {"name": "", "arguments": None})
            content = _with_status(_plain_text(item.get("output")), call, known)
            messages.append({"role": "tool", "tool_call_id": call_id, "name": call["name"], "content": content})
    return messages


def _with_status(content: str, call: Mapping[str, Any], known: set[str]) -> str:
    """An answer without a status line is the harness's own; its cause is read from the call, not from its words."""
    line = content.partition("\n")[0]
    if read_status(content).word != "other" or line.startswith("not run"):
        return content
    if call["name"] not in known:
        return f"error tool_not_found: there is no tool {call['name']!r}"
    problem = parse_turn({"tool_calls": [call]}, 0).calls[0].problem  # in the environment's own words
    return f"error {problem}" if problem else content


def _injected(episode: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The session's injected faults by their places (``TURN:INDEX``) in the host's account.

    What the session answered stands in the same order in both; compared are names and status lines, since a host may
    shorten long answers.
    """
    faults = {error["turn"]: error["message"] for error in episode["error_turns"] if error["injected"]}
    theirs, found = _answers(messages), {}
    for number, turn in enumerate(episode["turns"] if faults else []):
        for message in turn["messages"]:
            at = next((at for at, (_, known) in enumerate(theirs) if known == _seen(message)), None)
            if at is not None and number in faults:
                found[theirs[at][0]] = faults[number]
            theirs = theirs[at + 1 :] if at is not None else theirs
    return found


def _answers(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, str]]]:
    """Each tool message's place, and what of it does not change on its way to the host."""
    found: list[tuple[str, tuple[str, str]]] = []
    turn, index = -1, 0
    for message in messages:
        if message["role"] == "assistant":
            turn, index = turn + 1, 0
        elif message["role"] == "tool":
            found.append((f"{turn}:{index}", _seen(message)))
            index += 1
    return found


def _seen(message: Mapping[str, Any]) -> tuple[str, str]:
    return message["name"], message["content"].partition("\n")[0]


def _text(item: Mapping[str, Any]) -> str:
    return _plain_text(item.get("content"))


def _plain_text(content: Any) -> str:
    """A text, or the text parts of a list joined."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))
