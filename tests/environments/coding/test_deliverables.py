"""Tasks whose agent hands in tests or an answer: what it is shown, and how scripted agents fare."""

from __future__ import annotations

import asyncio

import pytest
from helpers.deleted_total import CORE as SOURCE

from etude.environments import agents
from etude.environments.coding.prompt import prompt
from etude.environments.coding.session import CodingSession
from etude.environments.grading.mutants import Version, pack
from etude.environments.runs.play import play
from etude.environments.snapshots import Snapshot, make_patch
from etude.environments.tasks.task_set import TaskSet
from etude.models import AnswerVerifier, Episode, GeneratorRef, MutantsVerifier, PytestVerifier, Task, Verifier

CORE, TESTS = "src/tally/core.py", "tests/test_total.py"
TEXT = "from tally import total\n\n\ndef test_nothing():\n    assert total([]) == 0\n"


def task_of(snapshot: Snapshot, verifier: Verifier, **fields: object) -> Task:
    return Task(
        task_id="tally-deliverable",
        snapshot=snapshot.ref,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement="Do what is asked.",
        verifier=verifier,
        **fields,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def question(snapshot: Snapshot) -> Task:
    return task_of(snapshot, AnswerVerifier(answer="tally.core.total", form="names", components=["answer"]))


@pytest.fixture(scope="module")
def writing(snapshot: Snapshot) -> Task:
    wrong = SOURCE.replace("result = 0", "result = 1")
    verifier = MutantsVerifier(
        test_file=TESTS, versions=pack([Version(True, {CORE: SOURCE}), Version(False, {CORE: wrong})])
    )
    return task_of(
        snapshot, verifier, patch=make_patch({TESTS: None}, {TESTS: TEXT.encode()}), source_globs=[TESTS],
        protected_paths=["src/**", "tests/test_hidden.py", "tests/test_visible.py"],
    )  # fmt: skip


def played(task: Task, agent: str) -> Episode:
    async def run() -> Episode:
        session = CodingSession(TaskSet([task]))
        try:
            await play(task, agents.make(agent, task), session)
            return session.episode()
        finally:
            await session.close()

    return asyncio.run(run())


def test_the_rules_of_a_question_say_that_the_answer_alone_is_graded(question: Task) -> None:
    text = prompt(question, ["bash", "submit"])
    assert "only your answer is graded" in text and "argument answer" in text
    assert "hidden tests" not in text and "Change source files only" not in text


def test_the_rules_of_written_tests_name_the_file(writing: Task) -> None:
    text = prompt(writing, ["bash", "submit"])
    assert f"Write your tests into {TESTS}" in text and "Change source files only" not in text


def test_the_rules_name_the_configuration_that_a_solution_may_change(writing: Task) -> None:
    graded = writing.model_copy(update={"verifier": PytestVerifier(), "source_globs": ["src/**/*.py"]})
    assert "Change source files only. Tests and configuration are graded as they were" in prompt(graded, ["bash"])
    packaging = graded.model_copy(update={"source_globs": ["src/**/*.py", "pyproject.toml"]})
    rule = "Change source files and pyproject.toml only. Tests and other configuration are graded as they were"
    assert rule in prompt(packaging, ["bash"])


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("noop", 0.0), ("cheater", 0.0)])
@pytest.mark.parametrize("kind", ["question", "writing"])
def test_the_oracle_scores_one_and_the_others_zero(
    request: pytest.FixtureRequest, kind: str, agent: str, reward: float
) -> None:
    episode = played(request.getfixturevalue(kind), agent)
    assert episode.reward is not None and episode.reward.valid and episode.reward.value == reward


def test_the_visible_tests_can_be_run_in_a_question(question: Task) -> None:
    class Curious:
        actions = [
            {"tool_calls": [{"id": "1", "name": "run_tests", "arguments": {"selector": "tests/test_visible.py"}}]},
            {"tool_calls": [{"id": "2", "name": "submit", "arguments": {"answer": "`tally.core.total`"}}]},
        ]

        def act(self, observation: object) -> dict[str, object] | None:
            return self.actions.pop(0) if self.actions else None

    async def run() -> Episode:
        session = CodingSession(TaskSet([question]))
        try:
            await play(question, Curious(), session)
            return session.episode()
        finally:
            await session.close()

    episode = asyncio.run(run())
    assert "3 passed" in episode.turns[0].messages[0].content
    assert episode.reward is not None and episode.reward.value == 1.0
