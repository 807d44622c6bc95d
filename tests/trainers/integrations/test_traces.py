"""Tests of the trace of a played episode, turn by turn, and of the sequences that TRL builds from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.async_grpo_world import TASK, WORDS, World, script, solution, turn_texts
from helpers.completions_engine import END, say, serving, talking
from helpers.scripted_policy import TASKS
from openenv.core.harness import TrainingTrace
from openenv.core.harness.capture.upstream import training_sampling
from trl.experimental.async_grpo.async_rollout_worker import _chain_to_sequences
from trl.experimental.async_grpo.openenv_harness import _turns_from_training_trace

from etude.trainers.integrations.async_grpo import PLAYED


def sequence(trace: TrainingTrace) -> tuple[Any, dict[str, float]]:
    """Apply TRL's own reconciliation, at its threshold for captures; an episode must be one sequence."""
    (one,), tally = _chain_to_sequences(_turns_from_training_trace(trace), "r", 0)
    return one, tally


def test_solved_drill_is_one_exact_sequence(world: World) -> None:
    session, trace, engine = world.play(talking(WORDS, script(*solution())), system="Be brief.")
    verified = session.verify([])
    assert (verified.env_reward, verified.metrics["turns"], verified.artifacts["end"]) == (1.0, 2, "submit")
    assert turn_texts(trace) == [text + END for text in solution()]
    assert [turn.prompt_token_ids for turn in trace.turns] == [body["prompt"] for body in engine.requests]
    assert "Be brief." in WORDS.decode(trace.turns[0].prompt_token_ids)
    row, tally = sequence(trace)
    assert (tally["clean"], tally["fork"], tally["realign"]) == (1, 0, 0)
    last = trace.turns[-1]
    assert row.input_ids == last.prompt_token_ids + last.completion_token_ids
    trained = [token for token, mask in zip(row.input_ids, row.completion_mask, strict=True) if mask]
    assert trained == [token for turn in trace.turns for token in turn.completion_token_ids]
    assert [bool(score) for score in row.old_log_probs] == [bool(mask) for mask in row.completion_mask]


def test_turn_has_openais_shape(world: World) -> None:
    _, trace, _ = world.play(talking(WORDS, script(*solution())))
    first, second = trace.turns
    (call,) = first.response["choices"][0]["message"]["tool_calls"]
    ((name, arguments),) = TASKS.drill(TASK).solution()
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (name, arguments)
    assert first.response["choices"][0]["finish_reason"] == "tool_calls"
    assistant, answered = second.request["messages"][-2:]
    assert assistant == first.response["choices"][0]["message"] and answered["tool_call_id"] == call["id"]
    assert [message["role"] for message in first.request["messages"]] == ["user"]
    assert name in [tool["function"]["name"] for tool in first.request["tools"]]
    assert [turn.node_id for turn in trace.turns] == ["e:0", "e:1"]


def test_spans_mark_generation_prompts_and_turns(world: World) -> None:
    _, trace, _ = world.play(talking(WORDS, script(*solution())))
    whole = trace.turns[-1].prompt_token_ids + trace.turns[-1].completion_token_ids
    for turn, text in zip(trace.turns, solution(), strict=True):
        span = turn.metadata["span"]
        assert WORDS.decode(whole[span["begin"] : span["start"]]) == "<|im_start|>assistant\n"
        assert WORDS.decode(whole[span["start"] : span["end"]]) == text + END


def test_trls_sampling_reaches_every_request(world: World) -> None:
    _, _, engine = world.play(talking(WORDS, script(*solution())), sampling=training_sampling({"temperature": 0.5}))
    for body in engine.requests:
        assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 1.0, -1)
        assert WORDS.eos_token_id in body["stop_token_ids"]
    assert len({body["seed"] for body in engine.requests}) == 2


def test_error_turns_and_hints_reach_the_trainer_but_not_the_policy(world: World) -> None:
    call, submit = solution()
    bad = say("no_such_tool", {})
    session, trace, engine = world.play(talking(WORDS, script(call, bad, submit)))
    by_turn = [turn.metadata["error_turns"] for turn in trace.turns]
    assert [[error["kind"] for error in errors] for errors in by_turn] == [[], ["tool_not_found"], []]
    ((error,),) = [errors for errors in by_turn if errors]
    assert error["site"] == "erring" and error["hints"] and all(hint["text"] for hint in error["hints"])
    read = WORDS.decode(engine.requests[-1]["prompt"])
    assert not any(hint["text"] in read for hint in error["hints"])
    assert not any(hint["text"] in json.dumps(turn.request) for hint in error["hints"] for turn in trace.turns)
    assert session.verify([]).env_reward == 1.0


def test_several_calls_in_one_turn_are_one_turn(world: World) -> None:
    call, submit = solution()
    both = call.replace('{"name"', '{"id": "mine", "name"') + "\n" + say("no_such_tool", {})
    session, trace, _ = world.play(talking(WORDS, script(both, submit)))
    calls = trace.turns[0].response["choices"][0]["message"]["tool_calls"]
    answers = [answer for answer in trace.turns[1].request["messages"] if answer["role"] == "tool"]
    assert len(calls) == 2 and [answer["tool_call_id"] for answer in answers] == [call["id"] for call in calls]
    assert [error["call_index"] for error in trace.turns[0].metadata["error_turns"]] == [1]
    assert session.verify([]).env_reward == 1.0 and sequence(trace)[1]["clean"] == 1


def test_malformed_call_is_answered_and_recorded_as_it_was(world: World) -> None:
    broken = '<tool_call>\n{"name": "submit", "arguments": {"answer": \n</tool_call>'
    session, trace, _ = world.play(talking(WORDS, script(broken, *solution())))
    assert turn_texts(trace)[0] == broken + END
    (error,) = trace.turns[0].metadata["error_turns"]
    assert error["kind"] == "malformed_call" and error["hints"]
    assert sequence(trace)[1]["clean"] == 2 and session.verify([]).env_reward == 1.0


@pytest.mark.parametrize(
    ("call", "kind"), [({"name": TASKS.drill(TASK).solution()[0][0]}, "invalid_args"), ({}, "malformed_call")]
)
def test_incomplete_call_is_played(world: World, call: Any, kind: str) -> None:
    """A tokenizer's own parser may return such a call."""
    calls: Iterator[Any] = iter([[call]])
    with serving(talking(WORDS, script("Hm.", *solution()))) as engine:
        factory = world.factory(engine)
        chat = factory.policy.chat()
        read = chat.action

        def action(ids: Any) -> Any:
            next_calls = next(calls, None)
            return {"text": "Hm.", "tool_calls": next_calls} if next_calls else read(ids)

        chat.action = action  # type: ignore[method-assign]
        session = factory.create(TASK)
        assert session.wait_for_completion() == PLAYED
        trace = session.fetch_training_trace()
    (recorded,) = trace.turns[0].response["choices"][0]["message"]["tool_calls"]
    assert recorded["function"] == {"name": call.get("name", ""), "arguments": "{}"}
    assert [error["kind"] for error in trace.turns[0].metadata["error_turns"]] == [kind]


def test_episode_ends_when_the_policy_makes_no_calls(world: World) -> None:
    session, trace, _ = world.play(talking(WORDS, script("I do not know.")))
    finishes = [turn.response["choices"][0]["finish_reason"] for turn in trace.turns]
    assert finishes == ["stop", "stop"]  # the policy is reminded once
    assert trace.turns[1].request["messages"][-1]["role"] == "user" and sequence(trace)[1]["clean"] == 1
    verified = session.verify([])
    assert (verified.env_reward, verified.artifacts["end"]) == (0.0, "no_tool_call")


def test_episode_without_room_is_graded_as_it_is(world: World) -> None:
    """The step that ends the episode is not a turn of the policy, and is not in the trace."""
    session, trace, _ = world.play(talking(WORDS, script(*solution())), max_turn_ids=3, max_ids=100_000)
    assert trace.turns[0].response["choices"][0]["finish_reason"] == "length"
    room = len(trace.turns[0].prompt_token_ids) + 10
    session, trace, engine = world.play(talking(WORDS, script(*solution())), max_ids=room)
    verified = session.verify([])
    assert len(trace.turns) == len(engine.requests) == verified.metrics["turns"] == 1
    assert len(trace.turns[0].completion_token_ids) == 10 and verified.env_reward == 0.0
