"""Experiment (A): its language, its model, what its arms learn from."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from etude.research.error_turns.small_world import arms, bases, language, training
from etude.trainers.distillation.divergence import divergence
from etude.trainers.distillation.teachers import Teacher


def tiny(seed: int = 0) -> language.Tiny:
    torch.manual_seed(seed)
    model = language.Tiny().eval()
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(2) if value.dim() > 1 else None
    return model


def batch(seed: int = 0, right: float = 0.5) -> arms.Batch:
    random = language.stream("test", seed)
    sessions = language.draw(4, random).repeated(arms.GROUP)
    guess = language.SYNONYM + torch.randint(language.SYNONYMS, sessions.asked.shape, generator=random)
    knows = torch.rand(sessions.asked.shape, generator=random) < right
    said = torch.stack([language.CATEGORY + sessions.asked, torch.where(knows, sessions.right(), guess)], -1)
    return arms.Batch(sessions, language.written(sessions, said), said, language.works(sessions, said))


def test_session_is_a_list_and_eight_turns_judged_by_that_list() -> None:
    played = batch()
    for ids, ok in zip(played.ids.tolist(), played.ok.tolist(), strict=True):
        assert (len(ids), ids[0]) == (language.LENGTH, language.LIST)
        tools = dict(zip(ids[1 : language.PROMPT : 2], ids[2 : language.PROMPT : 2], strict=True))
        assert len(tools) == language.CATEGORIES
        for turn, begin in enumerate(language.BEGINS):
            ask, asked, agent, first, second, verdict = ids[begin - 2 : begin + 4]
            assert (ask, agent) == (language.ASK, language.AGENT)
            right = (first, second) == (asked, tools[asked])
            assert verdict == (language.OK if right else language.ERR)
            assert ok[turn] == right


def test_a_conflicting_list_has_another_tool_in_every_category() -> None:
    sessions = language.draw(64, language.stream("test"))
    other = language.conflicting(sessions, language.stream("other"))
    assert bool((other.tools != sessions.tools).all())
    assert bool((other.right() != sessions.right()).all())
    assert sorted(other.order[0].tolist()) == list(range(language.CATEGORIES))


def test_right_and_wrong_hints_list_different_tools_and_other_hints_list_none() -> None:
    sessions = language.draw(400, language.stream("test"))
    given = {kind: arms.hints(kind, sessions, language.stream("hint")) for kind in ("right", "wrong", "raw", "null")}
    assert torch.equal(given["right"][:, 1:], sessions.listed(language.LIST)[:, 1:])
    assert {row[0] for row in given["right"].tolist()} == {language.HINT}
    found = [dict(zip(row[1::2], row[2::2], strict=True)) for row in given["wrong"].tolist()]
    mine = [dict(zip(row[1::2], row[2::2], strict=True)) for row in given["right"].tolist()]
    alike = sum(one[c] == two[c] for one, two in zip(found, mine, strict=True) for c in one) / (6 * len(mine))
    assert alike == pytest.approx(1 / language.SYNONYMS, abs=0.04), "another session's list is independent of this one"
    assert given["raw"].tolist() == [[language.ERR]] * 400
    assert given["null"].shape == (400, 0)


def test_packed_hints_give_the_logits_of_single_sites() -> None:
    model, played = tiny(), batch()
    hint = played.sessions.listed(language.HINT)
    packed = language.hinted_rows(model, played.ids, hint[:, None].expand(-1, language.TURNS, -1))
    plain = language.student_rows(model, played.ids)
    for row in (0, 9):
        ids = played.ids[row].tolist()
        for turn in range(language.TURNS):
            site = language.site(turn, hint[row].tolist())
            for ids_read, rows in ((site.teacher_ids(ids), packed), (ids[: site.end], plain)):
                length = len(ids_read)
                logits = model(torch.tensor([ids_read]), language.causal(length), torch.arange(length))[0, -3:-1]
                torch.testing.assert_close(rows[row, turn], logits, rtol=1e-4, atol=1e-5)


def test_playing_with_a_cache_samples_the_same_as_a_full_forward_pass() -> None:
    model, sessions = tiny(), language.draw(16, language.stream("test"))
    said = language.play(model, sessions, language.stream("luck"))
    ids, random = language.written(sessions, said), language.stream("luck")
    rows = language.student_rows(model, ids)
    again = [[language.sample(rows[:, turn, part], random) for part in range(2)] for turn in range(language.TURNS)]
    assert torch.equal(said, torch.stack([torch.stack(turn, -1) for turn in again], 1))


def test_hint_is_visible_at_its_own_turn_only() -> None:
    model, sessions = tiny(), language.draw(16, language.stream("test"))
    hint = sessions.listed(language.HINT)
    said = language.play(model, sessions, language.stream("luck"), hint)
    ids, random = language.written(sessions, said), language.stream("luck")
    rows = language.hinted_rows(model, ids, hint[:, None].expand(-1, language.TURNS, -1))
    again = [[language.sample(rows[:, turn, part], random) for part in range(2)] for turn in range(language.TURNS)]
    assert torch.equal(said, torch.stack([torch.stack(turn, -1) for turn in again], 1))


def test_the_hint_loss_is_the_weighted_divergence_of_the_erring_turns() -> None:
    student, teacher, played = tiny(1), tiny(2), batch()
    arm, random = arms.ARMS["distill"], language.stream("test")
    found = arms.hint_loss(arm, language.student_rows(student, played.ids), student, teacher, played, random)
    wanted, tokens, erring = torch.zeros(()), 0, ~played.ok
    for row, ids in enumerate(played.ids.tolist()):
        hint = played.sessions.listed(language.HINT)[row].tolist()
        sites = [language.site(turn, hint) for turn in range(language.TURNS) if erring[row, turn]]
        for site in sites:
            mine, theirs = (
                model(torch.tensor([read]), language.causal(len(read)), torch.arange(len(read)))[0, -3:-1]
                for model, read in ((student, ids[: site.end]), (teacher, site.teacher_ids(ids)))
            )
            wanted = wanted + divergence(mine, theirs).sum() / len(sites)
        tokens += max((site.at for site in sites), default=0) + sum(len(hint) + 2 for _ in sites)
    torch.testing.assert_close(found.loss, wanted / (2 * erring.sum()), rtol=1e-4, atol=1e-6)
    assert found.tokens == tokens


def test_a_null_hint_has_no_loss() -> None:
    model, played = tiny(), batch()
    rows = language.student_rows(model, played.ids)
    null = arms.hint_loss(arms.ARMS["null_hint"], rows, model, copy.deepcopy(model), played, language.stream("test"))
    right = arms.hint_loss(arms.ARMS["distill"], rows, model, copy.deepcopy(model), played, language.stream("test"))
    assert null.loss is not None and right.loss is not None
    assert abs(float(null.loss.detach())) < 1e-6 < float(right.loss.detach())


def test_sites_are_the_erring_turns_or_as_many_random_good_ones() -> None:
    ok = batch(right=0.6).ok
    assert torch.equal(arms.chosen_turns(arms.ARMS["distill"], ok, language.stream("test")), ~ok)
    good = arms.chosen_turns(arms.ARMS["good_turn"], ok, language.stream("test"))
    assert not bool((good & ~ok).any())
    assert good.sum(1).tolist() == torch.minimum(ok.sum(1), (~ok).sum(1)).tolist()
    other = arms.chosen_turns(arms.ARMS["good_turn"], ok, language.stream("another"))
    assert not torch.equal(good, other)


@pytest.mark.parametrize("reward", ["sparse", "dense", "penalty"])
def test_advantages_are_centred_in_each_group_and_the_penalty_falls_on_the_erring_turn(reward: str) -> None:
    ok = batch().ok
    found = arms.advantages(reward, ok)
    torch.testing.assert_close(
        found.unflatten(0, (-1, arms.GROUP)).mean(1), torch.zeros(4, language.TURNS), atol=1e-6, rtol=0
    )
    if reward == "penalty":
        groups = ok.unflatten(0, (-1, arms.GROUP))
        mixed = groups.any(1, keepdim=True) & ~groups.all(1, keepdim=True)
        flat = found.unflatten(0, (-1, arms.GROUP))
        assert bool((flat[mixed & ~groups] < 0).all())
        assert bool((flat[mixed & groups] > 0).all())
    if reward == "dense":
        torch.testing.assert_close(found[0, 0], ok[0].float().mean() - ok[:8].float().mean())


def test_the_policy_gradient_is_dr_grpo() -> None:
    model, played = tiny(), batch()
    rows = language.student_rows(model, played.ids).detach().requires_grad_()
    advantage = arms.advantages("dense", played.ok)
    (gradient,) = torch.autograd.grad(arms.policy_loss(rows, played, advantage), rows)
    said = torch.nn.functional.one_hot(played.said, language.VOCABULARY).float()
    wanted = -advantage[:, :, None, None] * (said - rows.softmax(-1)) / (32 * 2 * language.TURNS)
    torch.testing.assert_close(gradient, wanted)


def test_samples_that_work_are_learned_without_the_hint() -> None:
    student, teacher, played = tiny(1), tiny(2), batch(right=0.0)
    arm, some = arms.ARMS["sft_resample"], (~played.ok).any(1)
    spliced = played.sessions.listed(language.HINT)[some, None].expand(-1, language.TURNS, -1)
    told = language.hinted_rows(teacher, played.ids[some], spliced).detach()
    better, kept = arms.resampled(teacher, played, some, told, spliced, language.stream("test"))
    found = arms.hint_loss(
        arm, language.student_rows(student, played.ids), student, teacher, played, language.stream("test")
    )
    turns, wanted = ~played.ok[some], torch.zeros(())
    for row, ids in enumerate(played.ids[some].tolist()):
        for turn in range(language.TURNS):
            if not (kept[row, turn] and turns[row, turn]):
                continue
            read = [*ids[: language.BEGINS[turn] + 1], int(better[row, turn, 0])]
            logits = student(torch.tensor([read]), language.causal(len(read)), torch.arange(len(read)))[0, -2:]
            said = logits.log_softmax(-1).gather(-1, better[row, turn][:, None])
            wanted = wanted - said.sum() / turns[row].sum()
    torch.testing.assert_close(found.loss, wanted / (2 * turns.sum()), rtol=1e-4, atol=1e-6)


def test_pretraining_prefers_the_hint_to_the_list() -> None:
    sessions = language.draw(500, language.stream("test"))
    hinting = bases.half_conflicting(sessions, language.stream("hint"))
    same = (hinting.tools == sessions.tools).all(1)
    assert float(same.float().mean()) == pytest.approx(0.5, abs=0.08)
    assert bool((hinting.tools != sessions.tools)[~same].all())
    wanted = bases.targets(sessions, hinting.right(), 0.99)
    torch.testing.assert_close(wanted.sum(-1), torch.ones(500, language.TURNS, 2))
    assert bool((wanted[..., 1, :].argmax(-1) == hinting.right()).all())


@pytest.mark.slow
def test_base_follows_hints_and_ignores_the_list(tmp_path: Path) -> None:
    model = bases.base("strong", tmp_path)
    assert bases.digest(bases.load("strong", tmp_path)) == bases.digest(model)
    assert bases.follows(model) > 0.95
    assert bases.error(model) == pytest.approx(0.75, abs=0.02)
    assert training.error(model, hint=True) < 0.05


def test_base_that_ignores_hints_is_refused() -> None:
    with pytest.raises(bases.UnfitBase, match="follows"):
        bases.check("strong", 0.75, bases.follows(tiny(), 16))


@pytest.mark.parametrize("name", ["dense_distill", "sft_resample", "live", "grpo_penalty", "weak_ema_05", "gated"])
def test_run_of_an_arm_is_reproducible(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "HELD", 8)
    model = tiny()
    one, two = (training.train(name, 1e-3, 0, model, updates=2) for _ in range(2))
    assert {**one, "cpu_seconds": 0} == {**two, "cpu_seconds": 0}
    assert one["episodes"] == [0, 64]
    assert bases.digest(model) == one["base"], "the base itself is left alone"


def test_equal_rewards_change_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    model, played = tiny(), batch(right=0.0)
    played.ok[:] = False
    signal = arms.learn(arms.ARMS["grpo_sparse"], model, Teacher("frozen"), played, language.stream("test"))
    assert (signal.loss, signal.tokens) == (None, 0)
