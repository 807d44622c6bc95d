"""The penalty of a judge as a rubric: off by default, and never without mechanical evidence."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from helpers import light_server as light

from etude.environments.agents.openai import ModelOptions
from etude.environments.openenv import Action, EtudeEnvironment, PenaltySettings
from etude.environments.wire_values import LeftBehind
from etude.errors import LLMError
from etude.models import Episode, Finding
from etude.monitors.agentic import Judge

SUSPECT = Finding(exploit_id="T12", severity="suspect", turn=0)
ACCUSED = {
    "verdict": "exploit",
    "exploit_id": "T12",
    "succeeded": True,
    "turns": [0],
    "quotes": ["answer-1"],
    "reason": "It knew the answer.",
}
HONEST = {"verdict": "honest"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without waiting."""
    monkeypatch.setattr("etude.llm.client.backoff", lambda attempt: 0.0)


class Suspected(light.LightSession):
    """A session whose monitors report ``reported``."""

    reported: tuple[Finding, ...] = ()

    def episode(self) -> Episode:
        return super().episode().model_copy(update={"findings": list(self.reported)})

    def state(self) -> Any:
        return super().state().model_copy(update={"findings": list(self.reported)})


class Played:
    """What came of one episode: the last observation, the state, and the episode as it was left behind."""

    def __init__(self, url: str, *reported: Finding, text: str = "answer-1", weight: float = 0.75) -> None:
        self.left: list[dict[str, Any]] = []
        asyncio.run(self._play(url, reported, text, weight))

    async def _play(self, url: str, reported: tuple[Finding, ...], text: str, weight: float) -> None:
        def make() -> Suspected:
            session = Suspected(light.task_set())
            session.reported = reported
            return session

        def archive(episode_id: str, token: str, episode: LeftBehind) -> None:
            self.left.append(episode.served())

        judge = None
        if url:
            judge = Judge(PenaltySettings("m", ModelOptions(base_url=url), weight).open())
        environment = EtudeEnvironment(light.task_set(), make, archive=archive, judge=judge, judge_weight=weight)
        await environment.reset_async(task_id="light-1")
        self.names = [name for name, _ in environment.rubric.named_rubrics()]
        await environment.step_async(Action.model_validate(light.say(text)))
        self.last = await environment.step_async(Action.model_validate(light.SUBMIT))
        self.state = environment.state
        self.episode = environment.served(self.state.episode_id or "")
        await environment.close_async()


def verdict(endpoints: Any, answer: dict[str, Any]) -> Callable[[int, dict[str, Any]], Any]:
    return lambda number, body: endpoints.say(json.dumps({"verdicts": [{"rollout": "A", **answer}]}))


def test_no_penalty_without_a_judge() -> None:
    played = Played("", SUSPECT)
    assert played.last.reward == 1.0 and "penalty" not in played.names
    assert played.state.findings == [SUSPECT]


def test_judge_and_monitor_together_lower_the_reward_on_every_face(endpoints: Any) -> None:
    with endpoints.serving(verdict(endpoints, ACCUSED)) as at:
        played = Played(at.url, SUSPECT)
    assert "penalty" in played.names and "graded.fail_to_pass" in played.names
    assert played.last.reward == 0.25
    assert played.state.reward is not None and played.state.reward.value == 0.25
    assert played.state.reward.components["judge"] == 0.25 and played.state.reward.components["fail_to_pass"] == 1.0
    assert [(item.exploit_id, item.severity) for item in played.state.findings] == [
        ("T12", "suspect"),
        ("judge:T12", "suspect"),
    ]
    (left,) = played.left
    for served in (played.episode, left):
        assert served is not None and served["reward"]["value"] == 0.25
        assert [item["exploit_id"] for item in served["findings"]] == ["T12", "judge:T12"]


def test_a_judge_is_not_asked_without_mechanical_evidence_or_without_a_reward(endpoints: Any) -> None:
    info = SUSPECT.model_copy(update={"severity": "info"})
    with endpoints.serving(verdict(endpoints, ACCUSED)) as at:
        assert Played(at.url).last.reward == 1.0
        assert Played(at.url, info).last.reward == 1.0
        assert Played(at.url, SUSPECT, text="wrong").last.reward == 0.0
        assert at.requests == []


@pytest.mark.parametrize(
    "answer",
    [HONEST, {**ACCUSED, "turns": [9]}, {**ACCUSED, "quotes": ["never written"]}, {**ACCUSED, "succeeded": False}, {}],
)
def test_a_verdict_that_does_not_count_leaves_the_reward(answer: dict[str, Any], endpoints: Any) -> None:
    with endpoints.serving(verdict(endpoints, answer)) as at:
        played = Played(at.url, SUSPECT)
    assert len(at.requests) == 1 and played.last.reward == 1.0
    assert played.state.reward is not None and "judge" not in played.state.reward.components


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_endpoint_that_fails_costs_the_agent_nothing(
    status: int, endpoints: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with endpoints.serving(lambda number, body: endpoints.fail(status)) as at, caplog.at_level(logging.WARNING):
        played = Played(at.url, SUSPECT)
    assert played.last.reward == 1.0 and played.state.findings == [SUSPECT]
    assert any(str(status) in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("weight", [-0.5, 1.5])
def test_a_weight_that_could_raise_a_reward_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        PenaltySettings("m", ModelOptions(base_url="http://127.0.0.1:1/v1"), weight).open()


def test_an_address_in_place_of_a_model_is_refused() -> None:
    with pytest.raises(LLMError, match="give the endpoint's address with --base-url"):
        PenaltySettings("http://127.0.0.1:1/v1", ModelOptions(base_url="http://127.0.0.1:1/v1")).open()


def test_a_judge_without_a_key_is_refused_before_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    with pytest.raises(LLMError, match="NO_KEY is not set"):
        PenaltySettings("m", ModelOptions(base_url="https://example.invalid/v1", api_key_env="NO_KEY")).open()
