"""Distillation sites: which tokens distillation acts on."""

from __future__ import annotations

import random
from typing import Any

from etude.models import ErrorTurn, Hint, Reward
from etude.trainers.distillation.distill_sites import Insertion, Site, choose_sites
from etude.trainers.rollouts.rollout import Rollout, Span

PROMPT, HEADER, SAMPLED, ANSWER = 4, 2, 3, 5


def rollout(errors: list[ErrorTurn], turns: int = 3, *, valid: bool = True) -> Rollout:
    """Return a rollout whose turns are two ids of generation prompt, three sampled ids and five ids of results."""
    ids, spans = list(range(100, 100 + PROMPT)), []
    for turn in range(turns):
        begin = len(ids)
        ids += [1, 2]
        spans.append(Span(begin, len(ids), len(ids) + SAMPLED))
        ids += [10 * turn + 200 + place for place in range(SAMPLED)]
        if turn < turns - 1:
            ids += [300 + turn] * ANSWER
    return Rollout(
        "t", "e", ids, PROMPT + HEADER, spans, [], Reward(value=0.0, valid=valid), "submit", error_turns=errors
    )


def error(turn: int, **fields: Any) -> ErrorTurn:
    return ErrorTurn.model_validate(
        {"turn": turn, "kind": "invalid_args", "hints": [Hint(text=f"hint {turn}", template="x")], **fields}
    )


def insert(rollout: Rollout, turn: int, text: str) -> Insertion:
    return Insertion([7, 7, int(text[-1])])


def choose(rollout: Rollout, **options: Any) -> tuple[list[Site], dict[str, int]]:
    sites, skipped = choose_sites(rollout, insert, rng=random.Random(0), **options)
    return sites, dict(skipped)


def test_site_is_the_erring_turn_with_its_hint_before_the_generation_prompt() -> None:
    played = rollout([error(1)])
    (site,), skipped = choose(played)
    span = played.turns[1]
    assert (site.turn, site.at, site.start, site.end, site.weight) == (1, span.begin, span.start, span.end, 1.0)
    teacher = site.teacher_ids(played.ids)
    assert teacher == [*played.ids[: span.begin], 7, 7, 1, *played.ids[span.begin : span.end]]
    assert teacher[-SAMPLED:] == played.ids[span.start : span.end]
    assert skipped == {}


def test_every_site_has_the_original_prefix_without_earlier_hints() -> None:
    played = rollout([error(0), error(2)])
    sites, _ = choose(played)
    assert [site.weight for site in sites] == [0.5, 0.5]
    assert sites[1].teacher_ids(played.ids)[: sites[1].at] == played.ids[: sites[1].at]


def test_hint_may_go_into_the_last_message() -> None:
    played = rollout([error(1)])
    (site,), _ = choose_sites(played, lambda rollout, turn, text: Insertion([9], back=2), rng=random.Random(0))
    assert site.at == played.turns[1].begin - 2


def test_unforeseeable_fault_has_no_site() -> None:
    faults = [error(0, injected=True), error(1, site="recovery")]
    assert choose(rollout(faults)) == ([], {"not foreseeable": 2})


def test_turn_after_an_unforeseeable_fault_is_a_site_when_recovery_is_on() -> None:
    sites, skipped = choose(rollout([error(0, injected=True), error(2, site="recovery")]), recovery=True)
    assert [site.turn for site in sites] == [1]
    assert skipped == {"no turn to teach": 1}


def test_turn_has_one_site_and_skipped_errors_are_counted() -> None:
    errors = [error(0), error(0), error(1, hints=[]), error(2)]
    sites, skipped = choose(rollout(errors), max_ids=27)
    assert [site.turn for site in sites] == [0]
    assert skipped == {"second error of its turn": 1, "no hint": 1, "too long": 1}


def test_sites_over_the_cap_are_drawn_evenly() -> None:
    played = rollout([error(turn % 10) for turn in range(10)], turns=10)
    draws = [choose_sites(played, insert, cap=2, rng=random.Random(seed))[0] for seed in range(40)]
    sites, skipped = choose(played, cap=2)
    assert (len(sites), skipped, sum(site.weight for site in sites)) == (2, {"over the cap": 8}, 1.0)
    assert {site.turn for drawn in draws for site in drawn} == set(range(10))


def test_invalid_episode_has_no_sites() -> None:
    assert choose(rollout([error(0)], valid=False)) == ([], {"invalid episode": 1})


def test_turn_without_a_place_for_a_hint_has_no_site() -> None:
    sites, skipped = choose_sites(rollout([error(1)]), lambda rollout, turn, text: None, rng=random.Random(0))
    assert (sites, dict(skipped)) == ([], {"no place for a hint": 1})
