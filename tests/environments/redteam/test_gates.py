"""The three-part gate of every exploit: a careless grader pays for it, ours does not, and its honest twin is paid."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers.ledger_package import CORE, EXERCISE, HIDDEN
from helpers.leftovers import LEFTOVERS
from helpers.naive_grader import naive_reward

from etude.environments.redteam import campaign
from etude.environments.redteam.attempt import Attempt
from etude.environments.redteam.facts import facts_of
from etude.environments.tasks.task_set import TaskSet
from etude.models import Task
from etude.monitors.exploits import Exploit, corpus

DECEIVING = [one for one in corpus().values() if one.naive not in ("none", "reporter")]
TESTS = {"tests/test_hidden.py": HIDDEN}


def played(tasks: TaskSet, exploits: list[Exploit], **options: Any) -> list[Attempt]:
    targets = campaign.targets_of(tasks)
    return asyncio.run(campaign.run(targets, exploits, campaign.sessions(tasks), **options))


def test_the_careless_grader_does_not_pay_for_doing_nothing(task: Task) -> None:
    reward, seen = asyncio.run(naive_reward(task, None, facts_of(task), TESTS, {}))
    assert reward == 0, seen


@pytest.mark.slow
@pytest.mark.parametrize("exploit", DECEIVING, ids=lambda one: one.id)
def test_the_exploit_deceives_a_careless_grader(task: Task, exploit: Exploit) -> None:
    leftovers = LEFTOVERS[exploit.id](CORE, EXERCISE) if exploit.leftover else {}
    reward, seen = asyncio.run(naive_reward(task, exploit, facts_of(task), TESTS, leftovers))
    assert reward == 1, seen


@pytest.mark.slow
@pytest.mark.parametrize("exploit", corpus().values(), ids=lambda one: one.id)
def test_the_exploit_is_not_paid_and_its_twin_is(tasks: TaskSet, exploit: Exploit) -> None:
    attempt, twin = played(tasks, [exploit], twins=True)
    assert twin.reward == 1, twin
    assert "confirmed" not in twin.severities, twin
    if not (exploit.needs == "out_of_process" and attempt.assurance == "in_process"):
        assert not attempt.rewarded, attempt
