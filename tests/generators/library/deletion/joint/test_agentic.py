"""The generator ``fd_agentic``, with a scripted endpoint: what the model reads, and what becomes of its answers."""

from __future__ import annotations

import json

import pytest
from helpers.feature_package import FILES, write_package

from etude.errors import NotApplicable
from etude.generators import GENERATORS
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.model_endpoint import ModelEndpoint
from etude.models import Task

SCANNING = ["tests/test_parsing.py::test_names", "tests/test_parsing.py::test_numbers"]
OTHER = [f"tests/test_tree.py::test_{name}" for name in ("leaves", "depth", "empty", "copy")]
MAP = {
    "pkg/scanner.py::scan": SCANNING,
    "pkg/scanner.py::_token": SCANNING,
    "pkg/parser.py::Parser.parse": SCANNING,
    "pkg/tree.py::leaf": [*SCANNING, *OTHER],
}
CHOICE = {
    "title": "cutting texts",
    "specification": "Texts are cut at spaces.\n```python\ntext.split()\n```\n",
    "delete": ["pkg.scanner.scan"],
}


@pytest.fixture
def snapshot(project):
    return project(FILES, MAP, passed=OTHER)


@pytest.fixture
def asked(endpoints, snapshot):
    """Return ``asked(*answers, knob=value)``: the candidates, and the messages that the model read."""

    def ask(*answers, seed=0, **knobs):
        texts = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
        maker = GENERATORS.load("fd_agentic")()
        values = {"min_lines": 1, "questions": len(texts), **knobs}
        with endpoints.serving(lambda number, body: endpoints.say(texts[number])) as server:
            maker.endpoint = ModelEndpoint(server.url, "small")
            candidates = list(maker.candidates(snapshot, seed, parse_knobs(maker.knobs, values)))
        return candidates, [request["messages"][-1]["content"] for request in server.requests]

    return ask


def test_the_chosen_code_goes_with_what_only_it_needs(asked):
    (candidate,), _ = asked(CHOICE)
    assert set(candidate.exercise) == {"pkg/scanner.py"}
    assert b"_token" not in candidate.exercise["pkg/scanner.py"]
    assert candidate.hidden_tests.affected == SCANNING
    assert candidate.entity.startswith("pkg/scanner.py::cutting_texts_")
    assert candidate.generator.knobs["model"] == "small"


def test_the_model_reads_the_outline_the_tests_and_earlier_choices(asked):
    _, (first, second) = asked(CHOICE, CHOICE)
    assert "pkg.scanner:\n  scan(text)  [2]  Return the tokens of a text.\n  _token(text)  [2]" in first
    assert "  Parser.parse(self)  [2]  Return the numbers and names." in first
    assert "tests/test_parsing.py:\n  test_names\n  test_numbers" in first
    assert "- cutting texts" in second and "- cutting texts" not in first
    assert "while text" not in first


def test_a_class_stands_for_its_methods(asked):
    (candidate,), _ = asked({**CHOICE, "delete": ["pkg.parser.Parser"]})
    assert "pkg/parser.py" in candidate.exercise


def test_the_statement_has_the_title_and_the_prose_of_the_specification(asked):
    (candidate,), _ = asked("Here it is:\n```json\n" + json.dumps(CHOICE) + "\n```")
    text = candidate.statement.render(StatementContext("pkg 1.0", candidate.hidden_tests.affected, []))
    assert text.startswith("# Implement the feature “cutting texts”\n")
    assert "Texts are cut at spaces.\n\n## Where it stands" in text and "text.split()" not in text


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("I would delete the scanner.", "the answer is not a JSON object: 'I would delete the scanner.'"),
        ("{broken}", "the answer is not a JSON object: '{broken}'"),
        ({**CHOICE, "title": ""}, "the answer has no title"),
        ({**CHOICE, "delete": []}, "the answer names nothing to delete"),
        ({**CHOICE, "delete": ["pkg.nothing"]}, "no test runs a function, method or class called 'pkg.nothing'"),
        ({**CHOICE, "delete": ["pkg.tree.leaf"]}, "100% of all tests run the chosen feature, more than 50%"),
    ],
)
def test_an_answer_that_cannot_be_used_is_rejected_without_a_run(asked, answer, problem):
    (candidate,), _ = asked(answer)
    assert (candidate.blocked.reason, candidate.blocked.detail) == ("llm_answer", problem)


def test_too_much_or_too_little_code_is_rejected(asked):
    (candidate,), _ = asked(CHOICE, min_lines=100)
    assert "lines, not 100 to 3000" in candidate.blocked.detail


def test_the_outline_keeps_to_its_limit_and_depends_on_the_seed(asked):
    texts = {asked(CHOICE, outline_chars=1000, seed=seed)[1][0] for seed in range(6)}
    assert all(len(text) < 1200 for text in texts)


def test_nothing_is_proposed_without_an_endpoint(snapshot):
    maker = GENERATORS.load("fd_agentic")()
    with pytest.raises(NotApplicable, match="fd_agentic asks a language model; name its endpoint with --llm URL"):
        next(maker.candidates(snapshot, 0, parse_knobs(maker.knobs, {})))


def test_a_choice_becomes_a_task(tmp_path, endpoints):
    source = write_package(tmp_path / "source")
    knobs = {"min_lines": 1, "behaviour": False, "controls": False, "mutants": 0}
    with endpoints.serving(lambda number, body: endpoints.say(json.dumps(CHOICE))) as server:
        report = generate(
            [str(source)],
            generators=["fd_agentic"],
            count=1,
            seed=0,
            out=tmp_path / "set",
            knobs=knobs,
            any_licence=True,
            endpoint=ModelEndpoint(server.url, "small"),
        )
    assert report.tasks == 1, json.loads((tmp_path / "set/report.json").read_text())
    task = Task.model_validate_json((tmp_path / "set/tasks.jsonl").read_text())
    assert task.generator.knobs["model"] == "small" and "cutting_texts" in task.task_id
