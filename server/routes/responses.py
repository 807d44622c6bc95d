"""A rollout in OpenAI's Responses format, as a host reports it: its turns, the errors in them, and the reply about it.

A host's transcript holds more than the session's: which calls were one turn, what the model said, and the calls that
never left the host's harness, which itself answers an unknown tool or broken JSON.
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
    served: Mapping[str, Any], response: Any, *, played: int | None = None, changed: Sequence[str] | None = None
) -> list[ErrorTurn]:
    """Return the error turns of ``response``, or those of the session when ``response`` holds no turn.

    In the session's own transcript each call is a turn. served: the episode as it is served; its first ``played`` turns
    (None: all) are the agent's, the others only ended it. changed: paths of the frozen diff, None when unknown.
    """
    episode = Episode.model_validate(served)
    messages = transcript(episode.prompt, episode.tools, output_items(response))
    if len(messages) == 1:
        messages = hints.transcript(episode.model_copy(update={"turns": episode.turns[:played]}))
    return hints.annotate(messages, tools_now(episode), episode.files, _injected(served, messages), changed=changed)


def reply(served: Mapping[str, Any], response: Any, turns: int | None, changed: Sequence[str] | None) -> dict[str, Any]:
    """Return the answer of ``/verify`` for a graded episode; ``turns`` and ``changed`` as in ``error_turns``.

    ``reward`` and ``reward_components`` are NeMo Gym's. Each component is also a number at the top level, because NeMo
    Gym's metrics do not look into mappings. ``hints`` is one text, empty without hints.
    """
    errors = error_turns(served, response, played=turns, changed=changed)
    texts = list(dict.fromkeys(hint.text for error in errors for hint in error.hints))
    reward = served["reward"]
    return {
        **reward["components"],
        "reward": reward["value"],
        "reward_components": reward["components"],
        "passed_fractions": reward["fractions"],
        "error_turns": [error.model_dump(mode="json") for error in errors],
        "n_error_turns": len(errors),
        "hints": "\n".join(texts),
        "n_findings": len(served["findings"]),
        "assurance": reward["assurance"],
        **{name: served[name] for name in ("findings", "end", "sandbox", "task_id", "episode_id")},
    }


def output_items(response: Any) -> list[Mapping[str, Any]]:
    """Return the output items of a Responses object; an empty list for anything else."""
    output = response.get("output") if isinstance(response, Mapping) else None
    return [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else []


def last_text(response: Any) -> str:
    """Return the text with which the model stopped; '' when it stopped with a call."""
    last = output_items(response)[-1:]
    return _plain_text(last[0].get("content")) if last and last[0].get("type") == "message" else ""


def transcript(
    prompt: str, tools: Sequence[Mapping[str, Any]], output: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return output items as OpenAI chat messages.

    Items up to the first tool output are one turn; a second text starts another.
    """
    tool_names = {str(tool.get("function", tool).get("name")) for tool in tools}
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt, "dialect": "etude"}]
    calls: dict[str, dict[str, Any]] = {}
    for item in output:
        kind = item.get("type")
        if kind == "message":
            messages.append({"role": "assistant", "content": _plain_text(item.get("content"))})
        elif not isinstance(kind, str):
            continue
        elif kind in _CALLS:
            if messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            call_id, name = str(item.get("call_id") or ""), str(item.get("name") or "")
            calls[call_id] = {"id": call_id, "name": name, "arguments": item.get(_CALLS[kind])}
            messages[-1].setdefault("tool_calls", []).append(calls[call_id])
        elif kind in _OUTPUTS:
            call_id = str(item.get("call_id") or "")
            call = calls.get(call_id, {"name": "", "arguments": None})
            content = _with_status(_plain_text(item.get("output")), call, tool_names)
            messages.append({"role": "tool", "tool_call_id": call_id, "name": call["name"], "content": content})
    return messages


def _with_status(content: str, call: Mapping[str, Any], tool_names: set[str]) -> str:
    """Return a tool output with a status line.

    An output without one comes from the host's harness; its cause is read from the call, not from the output's words.
    """
    if read_status(content).word != "other" or _first_line(content).startswith("not run"):
        return content
    if call["name"] not in tool_names:
        return f"error tool_not_found: there is no tool {call['name']!r}"  # prose: ok
    problem = parse_turn({"tool_calls": [call]}, 0).calls[0].problem  # the environment's own message
    return f"error {problem}" if problem else content


def _injected(served: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the session's injected faults by their places (``TURN:INDEX``) in the host's transcript.

    The session's answers are in the same order in both transcripts. Names and status lines are compared, since a host
    may shorten long answers.
    """
    faults = {error["turn"]: error["message"] for error in served["error_turns"] if error["injected"]}
    answers = _answers(messages)
    places: dict[str, str] = {}
    for number, turn in enumerate(served["turns"] if faults else []):
        for message in turn["messages"]:
            match = next((at for at, (_, key) in enumerate(answers) if key == _key(message)), None)
            if match is None:
                continue
            if number in faults:
                places[answers[match][0]] = faults[number]
            answers = answers[match + 1 :]
    return places


def _answers(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, str]]]:
    """Return the place of each tool message, and the key that it has in both transcripts."""
    answers: list[tuple[str, tuple[str, str]]] = []
    turn, index = -1, 0
    for message in messages:
        if message["role"] == "assistant":
            turn, index = turn + 1, 0
        elif message["role"] == "tool":
            answers.append((f"{turn}:{index}", _key(message)))
            index += 1
    return answers


def _key(message: Mapping[str, Any]) -> tuple[str, str]:
    return message["name"], _first_line(message["content"])


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _plain_text(content: Any) -> str:
    """Return a text, or the joined text parts of a list."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))
