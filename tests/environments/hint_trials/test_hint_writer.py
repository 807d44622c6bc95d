"""`etude hints write`: a model's texts for the error turns of a run, also where the endpoint is of little use."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etude.cli import app as cli
from etude.environments.agents.openai import ModelOptions
from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.hint_candidates import read_texts
from etude.environments.hint_trials.hint_writer import ask_for_hints
from etude.environments.runs.play import run_episodes
from etude.environments.runs.reader import stored_episodes
from etude.models import AnswerVerifier, GeneratorRef, Task

GOOD = "Call the tool by the name that the list has."
Script = Callable[[int, dict[str, Any]], Any]


class Alphabet(DrillTasks):
    """Drills whose answers are long enough to be given away."""

    def __iter__(self) -> Any:
        return (task for task in super().__iter__() if len(answer_of(task)) >= 6)


def answer_of(task: Task) -> str:
    assert isinstance(task.verifier, AnswerVerifier)
    return task.verifier.answer


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without waiting."""
    monkeypatch.setattr("etude.llm.client.backoff", lambda attempt: 0.0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    asyncio.run(run_episodes(Alphabet(), "noisy:0,0", out=tmp_path, limit=12))
    return tmp_path


def hint(endpoints: Any, text: Any = GOOD, **more: Any) -> Any:
    return endpoints.say(json.dumps({"hint": text}), **more)


def write(
    run: Path, endpoints: Any, script: Script, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, Any], Any]:
    """Run the command; return its exit code, what it printed, and the endpoint."""
    with endpoints.serving(script) as at:
        code = cli.main(
            ["hints", "write", str(run), "--model", "m", "--base-url", at.url, "--timeout", "0.5", "--json", *arguments]
        )
    return code, json.loads(capsys.readouterr().out), at


def answers(run: Path) -> dict[str, str]:
    """Return the answers of the tasks by the prompts of their episodes."""
    episodes = [one.episode for one in stored_episodes(run)]
    tasks = DrillTasks()
    return {episode.prompt: answer_of(tasks.by_id(episode.task_id)) for episode in episodes}


def test_a_text_for_each_error_turn_as_causal_takes_them(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script = lambda number, body: hint(endpoints)  # noqa: E731
    code, result, at = write(run, endpoints, script, capsys, "--jobs", "3", "--price", "1,2")
    errors = [error for one in stored_episodes(run) for error in one.episode.error_turns]
    assert (code, result["error_turns"], result["written"], len(at.requests)) == (
        0,
        len(errors),
        len(errors),
        len(errors),
    )
    assert result["usage"]["usd"] == pytest.approx(len(errors) * (10 + 2 * 5) / 1e6)
    assert {row["kind"]: row["written"] for row in result["kinds"]} == Counter(error.kind for error in errors)
    texts = read_texts(run / "texts.jsonl")
    assert {(text.id, text.hint.source, text.hint.text) for text in texts} == {("llm", "llm", GOOD)}
    causal = ["hints", "causal", str(run), "--texts", str(run / "texts.jsonl"), "--choose", "uniform", "--json"]
    assert cli.main([*causal, "--k", "4"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert {item["name"] for item in measured["pooled"] if item["by"] == "hint"} >= {"llm"}
    rows = [json.loads(line) for line in (run / "hints" / "hints.jsonl").read_text().splitlines()]
    assert all([item["source"] for item in row["error_turn"]["hints"]][-1] == "llm" for row in rows)


def test_a_model_without_a_usable_answer_is_reported_as_a_failure(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result, _ = write(run, endpoints, lambda number, body: endpoints.say("no object"), capsys)
    assert (code, result["written"], result["fell_back"]["unreadable"]) == (1, 0, 12)


def test_what_stalls_errs_garbles_and_leaks_is_counted_and_the_template_stays(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = answers(run)

    def leak(body: dict[str, Any]) -> str:
        content = body["messages"][1]["content"]
        return next(answer for prompt, answer in expected.items() if prompt[:200] in content)

    bad: list[Callable[[dict[str, Any]], Any]] = [
        lambda body: hint(endpoints),
        lambda body: endpoints.STALL,
        lambda body: endpoints.fail(500),
        lambda body: endpoints.GARBAGE,
        lambda body: endpoints.say("no object"),
        lambda body: hint(endpoints, f"Submit {leak(body)} at once."),
    ]
    turns: dict[str, int] = {}

    def script(number: int, body: dict[str, Any]) -> Any:
        """Answer a question in the same manner, however often it is repeated."""
        place = turns.setdefault(json.dumps(body["messages"]), len(turns))
        return bad[place % len(bad)](body)

    code, result, at = write(run, endpoints, script, capsys, "--jobs", "6")
    fell = result["fell_back"]
    assert code == 1
    assert result["written"] + sum(fell.values()) == result["reached"] == 12
    assert fell == {"failed": 6, "budget": 0, "unreadable": 2, "leaked": 2}
    assert (result["written"], result["without_hint"], result["unchecked"]) == (2, 0, 0)
    written = (run / "texts.jsonl").read_text()
    assert written.count("\n") == 2 and not any(answer in written for answer in expected.values())
    assert result["usage"]["unanswered"] > 0

    paid = len(at.requests)
    code, result, at = write(run, endpoints, lambda number, body: hint(endpoints), capsys)
    assert (code, result["written"], result["cached"], len(at.requests)) == (0, 8, 6, 6)
    assert result["fell_back"] == {"failed": 0, "budget": 0, "unreadable": 2, "leaked": 2}
    assert paid > 6


def test_a_spent_budget_is_kept_and_a_later_call_asks_for_the_rest_alone(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script = lambda number, body: hint(endpoints, usage=(900, 100))  # noqa: E731
    arguments = ["--token-budget", "2500", "--max-tokens", "100"]
    code, result, first = write(run, endpoints, script, capsys, *arguments)
    assert (code, result["written"], result["fell_back"]["budget"]) == (1, 3, 9)
    assert result["usage"]["prompt_tokens"] + result["usage"]["completion_tokens"] <= 2500 + 1000
    code, result, second = write(run, endpoints, script, capsys, "--max-tokens", "100")
    assert (code, result["written"], result["cached"]) == (0, 12, 3)
    assert (len(first.requests), len(second.requests)) == (3, 9)


def test_an_interruption_keeps_every_answer(run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]) -> None:
    async def interrupted() -> None:
        asking: asyncio.Task[Any]
        loop = asyncio.get_running_loop()

        def script(number: int, body: dict[str, Any]) -> Any:
            if number < 4:
                return hint(endpoints)
            loop.call_soon_threadsafe(asking.cancel)
            return endpoints.STALL

        with endpoints.serving(script) as at:
            options = ModelOptions(base_url=at.url)
            asking = loop.create_task(ask_for_hints(run, "m", out=run / "texts.jsonl", options=options))
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(interrupted())
    assert not (run / "texts.jsonl").exists()
    code, result, at = write(run, endpoints, lambda number, body: hint(endpoints), capsys)
    assert (code, result["written"], result["cached"], len(at.requests)) == (0, 12, 4, 8)


def test_the_agent_itself_is_asked_and_named(run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, at = write(run, endpoints, lambda number, body: hint(endpoints), capsys, "--introspect", "--id", "own")
    assert all("one of your turns went wrong" in body["messages"][0]["content"] for body in at.requests)
    assert {(text.id, text.hint.source) for text in read_texts(run / "texts.jsonl")} == {("own", "introspect")}


def test_a_text_may_not_give_away_what_the_tasks_of_a_set_keep_secret(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"generator": GeneratorRef(name="g", version="1", seed=0), "problem_statement": "s"}
    patch = "--- a/tally.py\n+++ b/tally.py\n@@ -1 +1 @@\n-    pass\n+    running_sum = 0\n"
    ids = [one.episode.task_id for one in stored_episodes(run)]
    tasks = [Task(task_id=task_id, patch=patch, FAIL_TO_PASS=["tests/test_t.py::test_x"], **about) for task_id in ids]
    (run / "tasks").mkdir()
    (run / "tasks" / "tasks.jsonl").write_text("".join(task.model_dump_json() + "\n" for task in tasks))
    words = ["Begin with running_sum at zero.", "Look at tests/test_t.py::test_x.", GOOD]
    script = lambda number, body: hint(endpoints, words[number % 3])  # noqa: E731
    code, result, _ = write(run, endpoints, script, capsys, "--tasks", str(run / "tasks"))
    assert (code, result["written"], result["fell_back"]["leaked"], result["unchecked"]) == (0, 4, 8, 0)
    assert {text.hint.text for text in read_texts(run / "texts.jsonl")} == {GOOD}


def test_texts_are_reported_as_unchecked_when_their_tasks_are_unknown(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / "episodes.jsonl"
    file.write_text(file.read_text().replace('"task_id": "drill-', '"task_id": "other-'))
    with endpoints.serving(lambda number, body: hint(endpoints)) as at:
        assert cli.main(["hints", "write", str(run), "--model", "m", "--base-url", at.url]) == 0
    printed = capsys.readouterr()
    assert "12 texts for 12 of 12 error turns" in printed.out
    assert "12 texts were not checked for leaks: name the tasks with --tasks" in printed.err


@pytest.mark.parametrize(
    ("status", "arguments", "message"),
    [
        (401, [], "check the key"),
        (200, ["--budget", "1"], "a budget in USD needs the price of a token"),
        (200, ["--tasks", "nowhere"], "no tasks.jsonl in nowhere"),
        (200, ["--out", "/dev/null/texts"], "cannot write to /dev/null/texts.answers"),
    ],
)
def test_bad_options_are_reported_in_one_line_and_nothing_is_written(
    status: int, arguments: list[str], message: str, run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script = lambda number, body: hint(endpoints) if status == 200 else endpoints.fail(status)  # noqa: E731
    with endpoints.serving(script) as at:
        code = cli.main(["hints", "write", str(run), "--model", "m", "--base-url", at.url, *arguments])
    error = capsys.readouterr().err
    assert code != 0 and message in error and not (run / "texts.jsonl").exists()
    assert [line for line in error.splitlines() if "error:" in line] == error.splitlines()[-1:]
