"""Candidate texts, what is learned from trials of them, and the commands from a run to a chooser."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from etude.cli import app as cli
from etude.environments.agents import scripted as agents
from etude.environments.agents.scripted import Script, call, solution, submission, turn
from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.fork_points import every_place
from etude.environments.hint_trials.hint_candidates import Text, read_texts, write_texts
from etude.environments.hint_trials.log import read_choices
from etude.environments.hint_trials.measure import measure_hints
from etude.environments.hint_trials.report import CausalReport
from etude.environments.runs.play import run_episodes
from etude.environments.runs.reader import stored_episodes
from etude.errors import RunError
from etude.hints.chooser import Chooser
from etude.hints.offpolicy import learn
from etude.models import Hint, Task, Turn

TASKS = DrillTasks(["choose"], level=1)


def played(out: Path, limit: int = 2) -> Path:
    asyncio.run(run_episodes(TASKS, "noisy", out=out, limit=limit))
    return out


def measured(run: Path, name: str = "noisy", **more: Any) -> CausalReport:
    return asyncio.run(measure_hints(run, name, **{"out": run / "hints", "k": 2, **more}))


TEXTS = [
    Text(Hint(text="Step back and read the tools again.", template="step-back")),
    Text(Hint(text="Hurry.", template="hurry")),
]


class Choosy:
    """An agent that is helped by a candidate text where a call was malformed, and by templates elsewhere."""

    def __call__(self, task: Task, *, past: Sequence[Turn], told: str, seed: int) -> agents.Agent:
        odd = int(hashlib.sha256(task.task_id.encode()).hexdigest(), 16) % 2
        helped = told == TEXTS[0].hint.text if odd else bool(told) and told not in [text.hint.text for text in TEXTS]
        solved = random.Random(seed).random() < (0.9 if helped else 0.2)
        rest = [*solution(task), turn("", submission(task))] if solved else [turn("", call("submit", answer="?"))]
        return Script(rest)


def test_a_chooser_is_learned_from_trials_and_its_hints_say_so(tmp_path: Path) -> None:
    run = played(tmp_path, 6)
    measured(run, "choosy", agent=Choosy(), k=4, choose="uniform", texts=TEXTS)
    choices = read_choices([run / "hints"])
    assert len(choices) == 24 and all(choice.propensity == pytest.approx(1 / 3) for choice in choices)
    found = learn(choices, draws=20)
    assert found.rows["train"] + found.rows["held_out"] == 24
    out = tmp_path / "chosen"
    measured(run, "choosy", agent=Choosy(), k=2, choose=found.chooser, texts=TEXTS, out=out)
    rows = [json.loads(line) for line in (out / "hints.jsonl").read_text().splitlines()]
    for row in rows:
        by_arm = {hint["template"]: hint for hint in row["error_turn"]["hints"]}
        assert len(by_arm) == 3
        for score in row["scores"]:
            assert by_arm.pop(score["arm"])["source"] == "learned"
        assert all((hint["source"], hint["score"]) == ("template", None) for hint in by_arm.values())


def test_draws_are_logged_with_the_choosers_own_propensities(tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    chooser = Chooser(weights={"hurry": {"": 1.0}}, epsilon=0.3, temperature=0.5)
    measured(run, k=6, choose=chooser, texts=TEXTS)
    for choice in read_choices([run / "hints"]):
        assert choice.propensity == pytest.approx(chooser.probabilities(choice.context, choice.arms)[choice.arm])


def test_one_hint_is_said_wherever_there_is_it(tmp_path: Path) -> None:
    run = played(tmp_path, 2)
    one, other = every_place(stored_episodes(run))
    measured(run, k=1, choose="llm", texts=[Text(Hint(text="Look.", source="llm"), other.name)])
    rows = [json.loads(line) for line in (run / "hints" / "trials.jsonl").read_text().splitlines()]
    said = {row["place"]: row["arm"] for row in rows if row["arms"]}
    assert said == {one.name: next(iter(one.hints())), other.name: "llm"}


def test_a_hint_that_was_certain_is_no_choice(tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    measured(run, texts=TEXTS)
    assert read_choices([run / "hints"]) == []


@pytest.fixture
def benchmark(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/hints_choose.py, whose worlds are fixed there."""
    spec = importlib.util.spec_from_file_location("hints_choose", root / "benchmarks" / "hints_choose.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hints_choose", module)
    spec.loader.exec_module(module)
    return module


def test_the_learned_choice_earns_more_than_its_rivals_on_held_out_logs_and_when_it_is_played(
    benchmark: ModuleType, tmp_path: Path
) -> None:
    """A small share of what the benchmark plays; the truth of this world is 0.84, 0.52 and 0.44."""
    logs = asyncio.run(benchmark.episodes("train", 0, 90, tmp_path / "train"))
    fresh = asyncio.run(benchmark.episodes("eval", 0, 25, tmp_path / "eval"))
    found = asyncio.run(benchmark.compared("strong", 0, logs, fresh, 4, tmp_path))
    for rival in ("random", "best single"):
        on_logs = found.held_out[rival].gain
        assert on_logs is not None and on_logs.low > 0 and found.gain[rival].low > 0
        assert found.worth["learned"] > found.worth[rival] + 0.1


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
    rows = [json.loads(line) for line in (run / "hints" / "trials.jsonl").read_text().splitlines()]
    arms = {row["place"]: row["arms"] for row in rows if row["arms"]}
    own = [next(iter(place.hints())) for place in (one, other)]
    assert arms == {one.name: [own[0], "step-back", "hurry"], other.name: [own[1], "step-back", "hurry", "llm"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (Text(Hint(text="Look."), "elsewhere"), "for an error turn that the run does not have: elsewhere"),
        (Text(Hint(text="Look.", template="hurry")), "has a hint named 'hurry' already: give the text another id"),
    ],
)
def test_a_text_for_no_error_turn_or_with_a_taken_id_is_refused(text: Text, message: str, tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    with pytest.raises(RunError, match=message):
        measured(run, texts=[*TEXTS, text])
    assert not (run / "hints").exists()


def test_a_measurement_goes_on_with_the_same_texts_only(tmp_path: Path) -> None:
    run = played(tmp_path, 1)
    measured(run, k=1, texts=TEXTS)
    measured(run, k=1, texts=TEXTS[::-1])
    with pytest.raises(RunError, match="was played with texts .*: give the same, or choose another --out"):
        measured(run, k=1, texts=[TEXTS[0], Text(Hint(text="Take your time.", template="hurry"))])


def test_the_commands_from_a_run_to_a_chooser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, texts, chooser = played(tmp_path / "run", 6), tmp_path / "texts.jsonl", tmp_path / "chooser.json"
    texts.write_text("".join(json.dumps({"id": text.id, "text": text.hint.text}) + "\n" for text in TEXTS))
    common = ["hints", "causal", str(run), "--agent", "noisy", "--texts", str(texts), "--json"]
    assert cli.main([*common, "--k", "3", "--choose", "uniform"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["measured"], found["valid"]) == (True, 6, {"with": 18, "without": 18})
    assert cli.main(["hints", "choose", str(run / "hints"), "--out", str(chooser), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["policies"]) == {"learned", "explore", "random", "best single"}
    assert cli.main([*common, "--k", "1", "--choose", str(chooser), "--out", str(tmp_path / "learned")]) == 0
    capsys.readouterr()
    assert cli.main(["hints", "eval", str(run), "--json"]) == 0
    kinds = json.loads(capsys.readouterr().out)["kinds"]
    assert sum(row["error_turns"] for row in kinds) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["causal", "RUN", "--choose", "best"],
            "--choose 'best' is neither first, uniform, a chooser's file nor one of ",
        ),
        (["causal", "RUN", "--url", "ftp://far"], "not a server's address: 'ftp://far'"),
        (["causal", "nowhere"], "play some with `etude run --out nowhere`"),
        (["eval", "nowhere"], "cannot read nowhere"),
        (["choose", "nowhere"], "there is no nowhere"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = played(tmp_path, 1)
    code = cli.main(["hints", *(str(run) if word == "RUN" else word for word in arguments)])
    error = capsys.readouterr().err
    assert code != 0 and message in error and error.count("\n") <= 2
