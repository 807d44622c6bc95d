"""Candidate texts: which error turns they are tried at, how they are stored, and what the command refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.measured_hints import measured, played, trials

from etude.cli import app as cli
from etude.environments.hint_trials import hint_policy
from etude.environments.hint_trials.fork_points import every_place
from etude.environments.hint_trials.hint_candidates import Text, read_texts, write_texts
from etude.environments.runs.reader import stored_episodes
from etude.errors import RunError
from etude.models import Hint

TEXTS = [
    Text(Hint(text="Step back and read the tools again.", template="step-back")),
    Text(Hint(text="Hurry.", template="hurry")),
]


def test_a_hint_chosen_by_name_is_given_wherever_it_exists(tmp_path: Path) -> None:
    run = played(tmp_path, 2)
    one, other = every_place(stored_episodes(run))
    measured(run, k=1, choose="llm", texts=[Text(Hint(text="Look.", source="llm"), other.name)])
    content = {row["place"]: row["arm"] for row in trials(run) if row["arms"]}
    assert content == {one.name: next(iter(one.hints())), other.name: "llm"}


@pytest.mark.parametrize("line", ['{"id": "a"}', '{"id": "", "text": "x"}', "x", '{"id": "b", "text": "again"}', "[]"])
def test_texts_that_cannot_be_read_are_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text('{"id": "b", "text": "first"}\n' + line + "\n")
    with pytest.raises(RunError, match='texts.jsonl:2: write {"id"'):
        read_texts(file)


def test_texts_are_read_as_they_were_written(tmp_path: Path) -> None:
    texts = [*TEXTS, Text(Hint(text="Né.", source="llm"), "a place"), Text(Hint(text="Né.", source="llm"), "another")]
    write_texts(tmp_path / "texts.jsonl", [(text, {"kind": "timeout"}) for text in texts])
    assert read_texts(tmp_path / "texts.jsonl") == texts
    assert [text.id for text in texts] == ["step-back", "hurry", "llm", "llm"]


def test_a_text_for_one_error_turn_is_a_candidate_there_alone(tmp_path: Path) -> None:
    run = played(tmp_path, 2)
    one, other = every_place(stored_episodes(run))
    measured(run, k=1, choose="uniform", texts=[*TEXTS, Text(Hint(text="Look.", source="llm"), other.name)])
    arms = {row["place"]: row["arms"] for row in trials(run) if row["arms"]}
    own_errors = [next(iter(place.hints())) for place in (one, other)]
    assert arms == {
        one.name: [own_errors[0], "step-back", "hurry"],
        other.name: [own_errors[1], "step-back", "hurry", "llm"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (Text(Hint(text="Look."), "elsewhere"), "for an error turn that the run does not have: elsewhere"),
        (Text(Hint(text="Look.", template="hurry")), "has a hint named 'hurry' already; give the text another id"),
    ],
)
def test_a_text_is_refused_without_an_error_turn_or_with_a_used_id(text: Text, message: str, tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    with pytest.raises(RunError, match=message):
        measured(run, texts=[*TEXTS, text])
    assert not (run / "hints").exists()


def test_a_measurement_resumes_only_with_the_same_texts(tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    measured(run, k=1, texts=TEXTS)
    measured(run, k=1, texts=TEXTS[::-1])
    with pytest.raises(RunError, match="was played with --texts .*; give the same, or choose another --out"):
        measured(run, k=1, texts=[TEXTS[0], Text(Hint(text="Take your time.", template="hurry"))])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["causal", "RUN", "--choose", "best"],
            "--choose must be first, uniform, MODULE:POLICY or one of ",
        ),
        (["causal", "RUN", "--url", "ftp://far"], "not a server's address: 'ftp://far'"),
        (["causal", "nowhere"], "play some with `etude run --out nowhere`"),
        (["eval", "nowhere"], "cannot read nowhere"),
    ],
)
def test_bad_options_are_reported_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = played(tmp_path, 1)
    code = cli.main(["hints", *(str(run) if word == "RUN" else word for word in arguments)])
    error = capsys.readouterr().err
    assert code != 0 and message in error and error.count("\n") <= 2


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]


def test_a_policy_is_given_as_an_object_or_by_its_dotted_path(tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    for number, choose in enumerate((hint_policy.uniform, "etude.environments.hint_trials.hint_policy:uniform")):
        measured(run, k=6, choose=choose, texts=TEXTS, out=tmp_path / str(number))
    first, second = (rows_of(tmp_path / str(number)) for number in (0, 1))
    assert [row["arm"] for row in first] == [row["arm"] for row in second]
    assert all(row["propensity"] == pytest.approx(1 / 3) for row in first if row["arms"])
    hints = [json.loads(line) for line in (tmp_path / "1" / "hints.jsonl").read_text().splitlines()]
    tried = {score["arm"] for row in hints for score in row["scores"]}
    by_arm = {hint["template"]: hint for row in hints for hint in row["error_turn"]["hints"]}
    assert all((hint["source"] == "learned") == (arm in tried) for arm, hint in by_arm.items())
