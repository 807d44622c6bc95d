"""The agent ``openai:MODEL``: a model behind an OpenAI-compatible endpoint, with native tool calls or calls in text.

Whatever the model writes becomes the turn; the environment reports what is wrong with it. Values that could not be
stored or sent (lone surrogates, deep nesting, NaN) are replaced, as a server does with its clients' turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import ContextFull, LLMError
from ...hints.transcript.parsing import parse_turn
from ...llm import BASE_URL, LLM, Budget, Price, Reply, key_from, shown
from ...models import Task, Turn
from ..wire_values import plain
from . import text_tool_calls as hermes

FORMATS = ("native", "text")
Message = dict[str, Any]


@dataclass(frozen=True)
class ModelOptions:
    """Settings of a model behind an endpoint."""

    base_url: str = BASE_URL
    """Address of the endpoint."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds its key."""
    tool_format: str = "native"
    """``native`` tool calls, or calls in ``text`` with Hermes tags."""
    temperature: float | None = None
    """Sampling temperature; None: the endpoint's default."""
    max_tokens: int = 4096
    """Tokens of one answer at most."""
    timeout_s: float = 300.0
    """Seconds to wait for one answer."""
    price: Price = Price()
    """USD per million tokens."""
    budget: Budget = Budget()
    """What all calls together may cost."""

    def open(self, model: str, concurrency: int) -> LLM:
        """Return a client for ``model``. Raises LLMError."""
        if not model:
            raise LLMError("the agent openai needs a model: give --agent openai:MODEL")
        if not model.isprintable():
            raise LLMError(f"not a model's name: {model!r}; give --agent openai:MODEL")
        if self.tool_format not in FORMATS:
            raise LLMError(f"--tool-format must be native or text, got {self.tool_format!r}")
        return LLM(
            model,
            self.base_url,
            key_from(self.api_key_env, self.base_url),
            price=self.price,
            budget=self.budget,
            max_tokens=self.max_tokens,
            options={} if self.temperature is None else {"temperature": self.temperature},
            concurrency=concurrency,
            timeout_s=self.timeout_s,
        )

    def settings(self, model: str) -> dict[str, Any]:
        """Return the settings that a resumed run must repeat."""
        sampling = {"tool_format": self.tool_format, "temperature": self.temperature, "max_tokens": self.max_tokens}
        return {"model": model, "base_url": shown(self.base_url).rstrip("/"), **sampling}


@dataclass
class Usage:
    """Counts of what one episode used of a model."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    estimated: int = 0
    """Answers that came without token counts; their tokens are estimated."""
    context_full: bool = False
    """Whether the episode ended because the model could read no more."""

    def add(self, reply: Reply) -> None:
        """Add one answer."""
        self.calls += 1
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.usd += reply.usd
        self.estimated += reply.estimated


class ModelAgent:
    """Agent for one episode. When the model can read no more, the workspace is submitted as it is.

    ``past`` are the turns before the first observation, in a fork or a replay; ``hint`` is a user message after them.
    """

    def __init__(self, llm: LLM, tool_format: str = "native", past: Sequence[Turn] = (), hint: str = "") -> None:
        self._llm = llm
        self._past = past
        self._hint = hint
        self._text = tool_format == "text"
        self._messages: list[Message] = []
        self._tools: list[Message] = []
        self._last: dict[str, Any] | None = None
        self._turns = 0
        self._usage = Usage()

    async def act(self, observation: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the model's next turn. Raises LLMError when the model cannot be asked."""
        if observation.get("done"):
            return None
        self._read(observation)
        try:
            reply = await self._llm.chat(self._messages, [] if self._text else self._tools)
        except ContextFull:
            self._usage.context_full = True
            return {"text": "(The context is full.)", "tool_calls": [{"name": "submit", "arguments": {}}]}
        self._usage.add(reply)
        self._last = plain((text_action if self._text else native_action)(plain(reply.message)))
        self._last["usage"] = {"completion_tokens": reply.completion_tokens}
        return self._last

    @property
    def usage(self) -> dict[str, Any]:
        """Return what the episode used of the model so far."""
        return asdict(self._usage)

    def _read(self, observation: Mapping[str, Any]) -> None:
        """Append the last turn and the observation that answers it to the messages."""
        answers = observation.get("messages") or []
        if self._last is not None:
            self._remember(self._last, answers)
            self._messages += _hints(observation)
            return
        self._tools = list(observation.get("tools") or [])
        self._messages = [hermes.system_message(self._tools)] if self._text else []
        self._messages.append({"role": "user", "content": observation.get("prompt") or ""})
        for turn in self._past:
            self._remember(turn.action, [message.model_dump() for message in turn.messages])
        if self._hint:
            self._messages.append({"role": "user", "content": self._hint})

    def _remember(self, action: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> None:
        """Append a turn and the messages that answer it."""
        if self._text:
            self._messages += [{"role": "assistant", "content": _as_text(action)}, hermes.answer(answers)]
        else:
            self._messages += native_history(action, answers, self._turns)
        self._turns += 1


def _hints(observation: Mapping[str, Any]) -> list[Message]:
    """Return the hints in the observation as a user message, no message when it carries none."""
    errors = observation.get("annotations") or []
    texts = dict.fromkeys(error["hints"][0]["text"] for error in errors if error["hints"])
    return [{"role": "user", "content": "\n".join(texts)}] if texts else []


def openai(task: Task, model: str = "", *, llm: LLM, tool_format: str = "native") -> ModelAgent:
    """Let a model behind an OpenAI-compatible endpoint play (``openai:MODEL``); it sees only the observations."""
    return ModelAgent(llm, tool_format)


def native_action(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat completion's message as a turn; the model's reasoning (``reasoning_content``) is kept with it."""
    action = {"text": message.get("content"), "tool_calls": message.get("tool_calls")}
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return {**action, "reasoning_content": reasoning} if reasoning else action


def text_action(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose calls are in tags as a turn; ``raw`` is what the model wrote, with the tags."""
    raw = parse_turn({"text": message.get("content")}, 0).text
    parsed = message.get("tool_calls")  # from a server that reads the tags itself: they are put back
    tags = [hermes.written(call) for call in parsed if isinstance(call, Mapping)] if isinstance(parsed, list) else []
    raw = "\n".join([raw, *tags] if raw else tags)
    text, calls = hermes.read_calls(raw)
    return {"text": text, "tool_calls": calls, "raw": raw}


def native_history(action: Mapping[str, Any], answers: Sequence[Mapping[str, Any]], turn: int) -> list[Message]:
    """Return a past turn and its answers as messages that an endpoint accepts; endpoints send more than they accept.

    Ids become unique, names plain, and arguments that are not a JSON object are wrapped in one, as text.
    """
    parsed = parse_turn(action, turn)
    message: Message = {"role": "assistant", "content": parsed.text}
    results = [answer for answer in answers if answer["role"] == "tool"]
    ids: list[str] = []
    for index, call in enumerate(parsed.calls):
        ids.append(call.id if call.id not in ids else f"{call.id}_{turn}_{index}")
    raw = action.get("tool_calls")
    if parsed.calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unnamed",
                    "arguments": json.dumps(
                        plain(call.arguments) if not call.problem else {"malformed": _raw(raw, index)}
                    ),
                },
            }
            for index, (call_id, call) in enumerate(zip(ids, parsed.calls, strict=True))
        ]
    tool_messages = [
        {"role": "tool", "tool_call_id": call_id, "content": result["content"]}
        for call_id, result in zip(ids, results, strict=False)
    ]
    others = [{"role": "user", "content": answer["content"]} for answer in answers if answer["role"] != "tool"]
    return [message, *tool_messages, *others]


def _as_text(action: Mapping[str, Any]) -> str:
    """Return the text that the model wrote, or would have written for a turn that was not made in text."""
    if isinstance(action.get("raw"), str):
        return str(action["raw"])
    parsed = parse_turn(action, 0)
    calls = [hermes.written({"name": call.name, "arguments": plain(call.arguments)}) for call in parsed.calls]
    return "\n".join([parsed.text, *calls] if parsed.text else calls)


def _raw(calls: Any, index: int) -> str:
    """Return what the model wrote for a call that could not be read."""
    item = calls[index] if isinstance(calls, list) and index < len(calls) else calls
    body = item.get("function", item) if isinstance(item, Mapping) else item
    arguments = body.get("arguments") if isinstance(body, Mapping) else body
    return (arguments if isinstance(arguments, str) else json.dumps(arguments, default=str))[:4000]
