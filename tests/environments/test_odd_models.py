"""Nothing that a model can emit ends a run: it becomes a turn, or at worst voids its own episode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from etude.environments.agents.openai import ModelOptions
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import Opened, run_episodes
from etude.environments.runs.scores import Summary
from etude.errors import EndpointRefused, LLMError
from etude.models import Episode, Task

TASKS = DrillTasks(["choose"], level=1)
KEY = "sk-SECRETKEY-12345"
DEEP = '{"a":' * 400 + "1" + "}" * 400


def asking(arguments: str, name: str = "none", call_id: str = "c", text: str = "") -> str:
    """Return a message with one call, in JSON; ``arguments`` are JSON too."""
    call = f'{{"id": "{call_id}", "function": {{"name": "{name}", "arguments": {arguments}}}}}'
    return f'{{"content": "{text}", "tool_calls": [{call}]}}'


ODD = {
    "content": asking('"{}"', text="\\ud800 bad"),
    "parts": '{"content": [{"text": "\\ud800"}, "a"], "tool_calls": "submit"}',
    "ids and names": asking('"{}"', "sub\\udfffmit", "\\ud801"),
    "arguments": asking('{"answer": "\\ud800", "\\udfff": NaN}', "submit"),
    "text of arguments": asking('"{\\"\\\\ud800\\": \\"\\\\udfff\\"}"'),
    "thoughts": '{"content": "x", "reasoning_content": {"x": "\\ud800"}}',
    "depth": asking(DEEP),
    "tags": json.dumps({"content": f'<tool_call>{{"name": "\\ud800", "arguments": {{"a": NaN, "b": {DEEP}}}}}'}),
}


def run(url: str, out: Path, **more: Any) -> Summary:
    model = ModelOptions(base_url=url, tool_format=more.pop("tool_format", "native"))
    return asyncio.run(run_episodes(TASKS, more.pop("agent", "openai:m"), out=out, model=model, limit=2, **more))


def rows(out: Path) -> list[dict[str, Any]]:
    """Return every line, read as strict JSON in UTF-8."""
    lines = (out / "episodes.jsonl").read_bytes().decode().split("\n")[:-1]
    return [json.loads(line, parse_constant=pytest.fail) for line in lines]


@pytest.mark.parametrize("tool_format", ["native", "text"])
@pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
def test_whatever_a_model_answers_is_a_row(odd: str, tool_format: str, endpoints: Any, tmp_path: Path) -> None:
    answer = endpoints.Answer(body=f'{{"choices": [{{"message": {odd}}}]}}'.encode())
    with endpoints.serving(lambda number, body: answer) as endpoint:
        summary = run(endpoint.url, tmp_path, tool_format=tool_format)
    assert (summary.episodes, summary.valid, summary.failures) == (2, 2, {})
    assert all(row["turns"] for row in rows(tmp_path))


def test_an_impossible_count_of_tokens_is_a_row(endpoints: Any, tmp_path: Path) -> None:
    usage = f'{{"prompt_tokens": 1{"0" * 400}, "completion_tokens": 1}}'
    answer = endpoints.Answer(body=f'{{"choices": [{{"message": {{"content": "x"}}}}], "usage": {usage}}}'.encode())
    with endpoints.serving(lambda number, body: answer) as endpoint:
        assert run(endpoint.url, tmp_path).valid == 2
    assert all(row["usage"]["estimated"] == row["usage"]["calls"] for row in rows(tmp_path))


def test_an_endpoint_that_repeats_the_key_gets_it_into_no_file(
    endpoints: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with endpoints.serving(lambda number, body: endpoints.say(endpoint.headers[number]["authorization"])) as endpoint:
        run(endpoint.url, tmp_path)
    assert "Bearer ***" in (tmp_path / "episodes.jsonl").read_text()
    assert all(KEY not in file.read_text() for file in tmp_path.iterdir())


def test_an_episode_that_cannot_be_written_voids_itself_alone(tmp_path: Path) -> None:
    opened: list[DrillSession] = []

    @asynccontextmanager
    async def players(task: Task) -> AsyncIterator[Opened]:
        session = DrillSession(TASKS)
        opened.append(session)
        yield session, spoilt(session) if len(opened) == 1 else whole(session)

    def whole(session: DrillSession) -> Callable[[], Awaitable[Episode]]:
        async def finished() -> Episode:
            return session.episode()

        return finished

    def spoilt(session: DrillSession) -> Callable[[], Awaitable[Episode]]:
        async def finished() -> Episode:
            episode = session.episode()
            episode.turns[0].action["deep"] = json.loads(DEEP)
            return episode

        return finished

    summary = run("http://h/v1", tmp_path, agent="oracle", players=players)
    assert (summary.episodes, summary.valid, summary.reward) == (2, 1, 1.0)
    [cause] = summary.failures.values()
    assert cause.startswith("the episode cannot be written: ")
    assert [row["reward"]["valid"] for row in rows(tmp_path)] == [False, True]


def test_a_run_that_is_refused_leaves_no_folder(endpoints: Any, tmp_path: Path) -> None:
    with (
        endpoints.serving(lambda number, body: endpoints.fail(401, "bad key")) as endpoint,
        pytest.raises(EndpointRefused),
    ):
        run(endpoint.url, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_model_whose_name_cannot_be_sent_is_refused() -> None:
    with pytest.raises(LLMError, match="not a model's name"):
        ModelOptions(base_url="http://127.0.0.1:1/v1").open("a\udcff", 1)
