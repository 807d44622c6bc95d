"""Which tokens distillation acts on."""

from __future__ import annotations

import random
from typing import Any

from etude.models import ErrorTurn, Hint, Reward
from etude.trainers.distillation.distill_sites import Insertion, Site, choose
from etude.trainers.rollouts.rollout import Rollout, Span

PROMPT, HEADER, SAMPLED, ANSWER = 4, 2, 3, 5


def rollout(errors: list[ErrorTurn], turns: int = 3, *, valid: bool = True) -> Rollout:
    """Each turn: two ids of generation prompt, three sampled, five of results."""
    ids, spans = list(range(100, 100 + PROMPT)), []
    for turn in range(turns):
        begin = len(ids)
        ids += [1, 2]
        spans.append(Span(begin, len(ids), len(ids) + SAMPLED))
        ids += [10 * turn + 200 + each for each in range(SAMPLED)]
        if turn < turns - 1:
            ids += [300 + turn] * ANSWER
    return Rollout(
        "t", "e", ids, PROMPT + HEADER, spans, [], Reward(value=0.0, valid=valid), "submit", error_turns=errors
    )


def error(turn: int, **given: Any) -> ErrorTurn:
    return ErrorTurn.model_validate(
        {"turn": turn, "kind": "invalid_args", "hints": [Hint(text=f"hint {turn}", template="x")], **given}
    )


def insert(played: Rollout, turn: int, text: str) -> Insertion:
    return Insertion([7, 7, int(text[-1])])


def sites(played: Rollout, **given: Any) -> tuple[list[Site], dict[str, int]]:
    found, left = choose(played, insert, rng=random.Random(0), **given)
    return found, dict(left)


def test_a_site_is_the_turn_that_erred_and_its_hint_goes_before_the_generation_prompt() -> None:
    played = rollout([error(1)])
    (site,), left = sites(played)
    span = played.turns[1]
    assert (site.turn, site.at, site.start, site.end, site.weight) == (1, span.begin, span.start, span.end, 1.0)
    teacher = site.teacher_ids(played.ids)
    assert teacher == [*played.ids[: span.begin], 7, 7, 1, *played.ids[span.begin : span.end]]
    assert teacher[-SAMPLED:] == played.ids[span.start : span.end]
    assert left == {}


def test_every_site_has_the_original_prefix() -> None:
    played = rollout([error(0), error(2)])
    found, _ = sites(played)
    assert [site.weight for site in found] == [0.5, 0.5]
    assert found[1].teacher_ids(played.ids)[: found[1].at] == played.ids[: found[1].at]


def test_a_hint_may_go_into_the_last_message() -> None:
    played = rollout([error(1)])
    (site,), _ = choose(played, lambda played, turn, text: Insertion([9], back=2), rng=random.Random(0))
    assert site.at == played.turns[1].begin - 2


def test_what_the_policy_could_not_foresee_is_no_site() -> None:
    faults = [error(0, injected=True), error(1, site="recovery")]
    assert sites(rollout(faults)) == ([], {"not foreseeable": 2})


def test_on_request_the_turn_after_an_unforeseen_fault_is_a_site() -> None:
    found, left = sites(rollout([error(0, injected=True), error(2, site="recovery")]), recovery=True)
    assert [site.turn for site in found] == [1]
    assert left == {"no turn to teach": 1}


def test_a_turn_counts_once_and_what_is_left_out_is_counted() -> None:
    errors = [error(0), error(0), error(1, hints=[]), error(2)]
    found, left = sites(rollout(errors), max_ids=27)
    assert [site.turn for site in found] == [0]
    assert left == {"second error of its turn": 1, "no hint": 1, "too long": 1}


def test_a_loop_of_errors_is_capped_and_drawn_evenly() -> None:
    played = rollout([error(turn % 10) for turn in range(10)], turns=10)
    drawn = {site.turn for seed in range(40) for site in choose(played, insert, cap=2, rng=random.Random(seed))[0]}
    found, left = sites(played, cap=2)
    assert (len(found), left, sum(site.weight for site in found)) == (2, {"over the cap": 8}, 1.0)
    assert drawn == set(range(10))


def test_an_invalid_episode_teaches_nothing() -> None:
    assert sites(rollout([error(0)], valid=False)) == ([], {"invalid episode": 1})


def test_a_turn_without_a_place_for_a_hint_is_left_out() -> None:
    found, left = choose(rollout([error(1)]), lambda played, turn, text: None, rng=random.Random(0))
    assert (found, dict(left)) == ([], {"no place for a hint": 1})
