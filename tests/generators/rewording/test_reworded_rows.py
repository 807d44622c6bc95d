"""``etude generate --rewrite`` with a scripted endpoint: rows, report, card, retries, resuming, and the same bytes."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.light_checks import LIGHT

from etude.errors import EndpointRefused, GeneratorError, LLMError
from etude.generators.generate import generate
from etude.generators.model_endpoint import ANSWERS, ModelEndpoint
from etude.generators.output.publish import JOURNAL
from etude.generators.output.report import Report
from etude.models import REWRITTEN_BY, Task

FILES = {
    "pyproject.toml": """
        [project]
        name = "shades"
        version = "1.0"
        license = "MIT"
        """,
    "shades/__init__.py": '''
        """Shades of grey."""


        def blend(first, second):
            """Return the shade between two."""
            whole = first + second
            return whole // 2


        def darken(shade, *, amount=10):
            """Return a darker shade."""
            darker = shade - amount
            return max(darker, 0)


        def spread(shades):
            """Return the distance between the lightest shade and the darkest one."""
            wurzelmix = sorted(shades)
            return wurzelmix[-1] - wurzelmix[0]
        ''',
    "tests/test_shades.py": """
        from shades import blend, darken, spread


        def test_blend_of_two():
            assert blend(0, 10) == 5


        def test_darken_by_an_amount():
            assert darken(20, amount=5) == 15


        def test_spread_of_three():
            assert spread([3, 1, 2]) == 2


        def test_nothing():
            assert True


        def test_nothing_else():
            assert True
        """,
}
THANKS = "\n\nThank you for a look at this; it would help us."


def statement_in(body: dict[str, Any]) -> str:
    """Return the statement that a request asks about."""
    text = body["messages"][1]["content"]
    return str(text.removeprefix("<statement>\n").removesuffix("\n</statement>"))


def answer_to(body: dict[str, Any]) -> str:
    """Return the answer of the model: a good one for `blend`, a good second one for `spread`, none for `darken`."""
    statement, is_retry = statement_in(body), len(body["messages"]) > 2
    good = f"Here it is:\n<statement>\n{statement}{THANKS}\n</statement>"
    if "shades.darken" in statement:
        return good.replace("darken(amount=)", "darken")
    if "shades.spread" in statement and not is_retry:
        return good.replace(THANKS, "\n\nThe old code kept its shades as a wurzelmix, as far as we remember.")
    return good


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shades")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text).lstrip("\n"))
    return folder


@pytest.fixture(scope="module")
def make_set(source: Path) -> Callable[..., Report]:
    def make(out: Path, url: str, **more: Any) -> Report:
        arguments = {"generators": ["fd_function"], "count": 3, "seed": 3, "rewrite": True, **more}
        knobs = {"min_lines": 2, "style": "instruction", **LIGHT}
        return generate([str(source)], out=out, knobs=knobs, endpoint=ModelEndpoint(url, "small"), **arguments)

    return make


@pytest.fixture(scope="module")
def sample(
    make_set: Callable[..., Report], endpoints: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Report, list[dict[str, Any]]]]:
    """Return the folder of a set, its report, and the requests that the model read."""
    out = tmp_path_factory.mktemp("sample") / "set"
    with endpoints.serving(lambda number, body: endpoints.say(answer_to(body))) as server:
        yield out, make_set(out, server.url), server.requests


def rows(folder: Path) -> dict[str, Task]:
    tasks = [Task.model_validate_json(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]
    return {task.interface[0].name.rpartition(".")[2]: task for task in tasks}


def test_an_accepted_text_becomes_the_statement(sample) -> None:
    out, report, _ = sample
    task = rows(out)["blend"]
    assert task.problem_statement.endswith(f"{THANKS}\n") and "shades.blend" in task.problem_statement
    assert task.features[REWRITTEN_BY] == "small"
    assert task.features["prompt_words"] == len(task.problem_statement.split())
    assert (report.tasks, report.rewriting.rewritten, report.rewriting.model) == (3, 2, "small")


def test_the_model_reads_the_statement_and_nothing_else(sample) -> None:
    _, _, requests = sample
    for body in requests:
        assert "shades" in statement_in(body)
        text = json.dumps(body)
        assert "diff --git" not in text and "whole // 2" not in text and "assert blend" not in text
    first = [body for body in requests if len(body["messages"]) == 2]
    assert "wurzelmix" not in json.dumps(first)


def test_a_text_without_a_demanded_name_is_asked_for_again_and_then_dropped(sample) -> None:
    out, report, requests = sample
    task = rows(out)["darken"]
    assert REWRITTEN_BY not in task.features and THANKS not in task.problem_statement
    asked = [body for body in requests if "shades.darken" in statement_in(body)]
    assert [len(body["messages"]) for body in asked] == [2, 4]
    assert "- it no longer states 'the item keyword `darken(amount=)`'" in asked[1]["messages"][-1]["content"]
    assert report.rewriting.retained == {"dropped": 1}
    (item,) = report.rewriting.details
    assert (item.task_id, item.reason) == (task.task_id, "dropped") and "darken(amount=)" in item.detail


def test_a_text_with_code_of_the_solution_is_refused(sample) -> None:
    out, report, requests = sample
    asked = [body for body in requests if "shades.spread" in statement_in(body)]
    assert "- it says 'wurzelmix', which the statement does not" in asked[1]["messages"][-1]["content"]
    task = rows(out)["spread"]
    assert "wurzelmix" not in task.problem_statement and task.features[REWRITTEN_BY] == "small"
    assert report.rewriting.refused == {"dropped": 2, "v4_leak": 1}


def test_report_and_card_count_the_statements_and_the_tokens(sample) -> None:
    out, _, requests = sample
    written = json.loads((out / "report.json").read_text())
    assert len(requests) == 5 and written["request"]["rewrite"] is True
    part = written["rewriting"]
    assert (part["calls"], part["prompt_tokens"], part["completion_tokens"]) == (5, 50, 25)
    assert "| statements in the words of `small` | 2 tasks |" in (out / "README.md").read_text()
    assert "A language model wrote 2 statements in its own words" in (out / "README.md").read_text()


def test_recorded_answers_give_the_same_bytes(sample, make_set, endpoints, tmp_path) -> None:
    out, report, _ = sample
    (tmp_path / "again").mkdir()
    shutil.copy(out / ANSWERS, tmp_path / "again" / ANSWERS)
    with endpoints.serving(lambda number, body: endpoints.fail(401)) as server:
        again = make_set(tmp_path / "again", server.url, jobs=2)
        assert server.requests == []
    assert (tmp_path / "again" / "tasks.jsonl").read_bytes() == (out / "tasks.jsonl").read_bytes()
    assert again.rewriting == report.rewriting


def test_a_run_whose_endpoint_fails_is_resumed(sample, make_set, endpoints, tmp_path) -> None:
    out, _, _ = sample

    def script(number: int, body: dict[str, Any]) -> Any:
        is_first = "shades.blend" in statement_in(body)
        return endpoints.say(answer_to(body)) if is_first else endpoints.fail(401, "the key expired")

    with endpoints.serving(script) as server, pytest.raises(LLMError, match="the key expired.*run the same command"):
        make_set(tmp_path, server.url)
    assert (tmp_path / JOURNAL).exists() and not (tmp_path / "tasks.jsonl").exists()
    answered = (tmp_path / ANSWERS).read_text().count("\n") if (tmp_path / ANSWERS).exists() else 0
    with endpoints.serving(lambda number, body: endpoints.say(answer_to(body))) as server:
        make_set(tmp_path, server.url)
        assert len(server.requests) == 5 - answered
    assert (tmp_path / "tasks.jsonl").read_bytes() == (out / "tasks.jsonl").read_bytes()


def test_a_refused_request_and_an_answer_without_a_statement_concern_one_task(make_set, endpoints, tmp_path) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        statement = statement_in(body)
        if "shades.darken" in statement:
            return endpoints.fail(400, "too long")
        return endpoints.say("I would rather not." if "shades.spread" in statement else answer_to(body))

    with endpoints.serving(script) as server:
        report = make_set(tmp_path, server.url)
    assert report.rewriting.rewritten == 1
    assert report.rewriting.retained == {"llm_failed": 1, "no_statement": 1}
    assert report.rewriting.refused == {"llm_failed": 1, "no_statement": 2}


def test_rewriting_needs_an_endpoint_and_its_key_before_any_work(source, tmp_path, monkeypatch) -> None:
    arguments: dict[str, Any] = {"generators": ["fd_function"], "count": 1, "seed": 0, "rewrite": True}
    with pytest.raises(GeneratorError, match="name its endpoint with --llm URL --model NAME"):
        generate([str(source)], out=tmp_path, **arguments)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    remote = ModelEndpoint("https://llm.example.org/v1", "small")
    with pytest.raises(EndpointRefused, match="OPENAI_API_KEY is not set"):
        generate([str(tmp_path / "no-source")], out=tmp_path, endpoint=remote, **arguments)


@pytest.mark.slow
def test_twins_agree_with_the_new_statements_and_an_audit_accepts_the_set(make_set, endpoints, tmp_path) -> None:
    from etude.generators.validation.audit import validate

    with endpoints.serving(lambda number, body: endpoints.say(answer_to(body))) as server:
        report = make_set(tmp_path / "set", server.url, impossible=True, obfuscate=True)
    assert report.twins["made"] and report.renamed.twins["made"]
    lines = (tmp_path / "set/tasks.jsonl").read_text().splitlines()
    twins = [task for task in map(Task.model_validate_json, lines) if REWRITTEN_BY in task.features]
    assert len(twins) > 2 and all(task.problem_statement.endswith(f"{THANKS}\n") for task in twins)
    audit = validate(tmp_path / "set", runs=1)
    assert audit.ok, audit.problems
