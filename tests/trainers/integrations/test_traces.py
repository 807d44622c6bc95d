"""What a played episode tells a trainer, turn by turn, and what TRL makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.async_grpo_world import TASK, WORDS, World, said, script, solution
from helpers.completions_engine import END, say, serving, talking
from helpers.scripted_policy import TASKS
from openenv.core.harness import TrainingTrace
from openenv.core.harness.capture.upstream import training_sampling
from trl.experimental.async_grpo.async_rollout_worker import _chain_to_sequences
from trl.experimental.async_grpo.openenv_harness import _turns_from_training_trace

from etude.trainers.integrations.async_grpo import PLAYED


def sequence(trace: TrainingTrace) -> tuple[Any, dict[str, float]]:
    """TRL's own reconciliation at its threshold for captures; an episode is one sequence."""
    (found,), tally = _chain_to_sequences(_turns_from_training_trace(trace), "r", 0)
    return found, tally


def test_a_solved_drill_is_one_exact_sequence(world: World) -> None:
    session, trace, engine = world.played(talking(WORDS, script(*solution())), system="Be brief.")
    verified = session.verify([])
    assert (verified.env_reward, verified.metrics["turns"], verified.artifacts["end"]) == (1.0, 2, "submit")
    assert said(trace) == [text + END for text in solution()]
    assert [turn.prompt_token_ids for turn in trace.turns] == [body["prompt"] for body in engine.asked]
    assert "Be brief." in WORDS.decode(trace.turns[0].prompt_token_ids)
    found, tally = sequence(trace)
    assert (tally["clean"], tally["fork"], tally["realign"]) == (1, 0, 0)
    last = trace.turns[-1]
    assert found.input_ids == last.prompt_token_ids + last.completion_token_ids
    trained = [token for token, kept in zip(found.input_ids, found.completion_mask, strict=True) if kept]
    assert trained == [token for turn in trace.turns for token in turn.completion_token_ids]
    assert [bool(score) for score in found.old_log_probs] == [bool(kept) for kept in found.completion_mask]


def test_a_turn_is_told_in_openais_shape(world: World) -> None:
    _, trace, _ = world.played(talking(WORDS, script(*solution())))
    first, second = trace.turns
    (call,) = first.response["choices"][0]["message"]["tool_calls"]
    ((name, arguments),) = TASKS.drill(TASK).solution()
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (name, arguments)
    assert first.response["choices"][0]["finish_reason"] == "tool_calls"
    asked, answered = second.request["messages"][-2:]
    assert asked == first.response["choices"][0]["message"] and answered["tool_call_id"] == call["id"]
    assert [message["role"] for message in first.request["messages"]] == ["user"]
    assert name in [tool["function"]["name"] for tool in first.request["tools"]]
    assert [turn.node_id for turn in trace.turns] == ["e:0", "e:1"]


def test_spans_lie_around_generation_prompts(world: World) -> None:
    _, trace, _ = world.played(talking(WORDS, script(*solution())))
    whole = trace.turns[-1].prompt_token_ids + trace.turns[-1].completion_token_ids
    for turn, text in zip(trace.turns, solution(), strict=True):
        span = turn.metadata["span"]
        assert WORDS.decode(whole[span["begin"] : span["start"]]) == "<|im_start|>assistant\n"
        assert WORDS.decode(whole[span["start"] : span["end"]]) == text + END


def test_trls_sampling_reaches_every_request(world: World) -> None:
    _, _, engine = world.played(talking(WORDS, script(*solution())), sampling=training_sampling({"temperature": 0.5}))
    for body in engine.asked:
        assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 1.0, -1)
        assert WORDS.eos_token_id in body["stop_token_ids"]
    assert len({body["seed"] for body in engine.asked}) == 2


def test_error_turns_are_told_with_their_hints_to_the_trainer_alone(world: World) -> None:
    call, submit = solution()
    bad = say("no_such_tool", {})
    session, trace, engine = world.played(talking(WORDS, script(call, bad, submit)))
    told = [turn.metadata["error_turns"] for turn in trace.turns]
    assert [[error["kind"] for error in errors] for errors in told] == [[], ["tool_not_found"], []]
    ((error,),) = [errors for errors in told if errors]
    assert error["site"] == "erring" and error["hints"] and all(hint["text"] for hint in error["hints"])
    read = WORDS.decode(engine.asked[-1]["prompt"])
    assert not any(hint["text"] in read for hint in error["hints"])
    assert not any(hint["text"] in json.dumps(turn.request) for hint in error["hints"] for turn in trace.turns)
    assert session.verify([]).env_reward == 1.0


def test_calls_in_one_turn_are_one_turn(world: World) -> None:
    call, submit = solution()
    both = call.replace('{"name"', '{"id": "mine", "name"') + "\n" + say("no_such_tool", {})
    session, trace, _ = world.played(talking(WORDS, script(both, submit)))
    calls = trace.turns[0].response["choices"][0]["message"]["tool_calls"]
    answers = [each for each in trace.turns[1].request["messages"] if each["role"] == "tool"]
    assert len(calls) == 2 and [each["tool_call_id"] for each in answers] == [call["id"] for call in calls]
    assert [error["call_index"] for error in trace.turns[0].metadata["error_turns"]] == [1]
    assert session.verify([]).env_reward == 1.0 and sequence(trace)[1]["clean"] == 1


def test_broken_json_is_answered_and_stays_what_it_was(world: World) -> None:
    broken = '<tool_call>\n{"name": "submit", "arguments": {"answer": \n</tool_call>'
    session, trace, _ = world.played(talking(WORDS, script(broken, *solution())))
    assert said(trace)[0] == broken + END
    (error,) = trace.turns[0].metadata["error_turns"]
    assert error["kind"] == "malformed_call" and error["hints"]
    assert sequence(trace)[1]["clean"] == 2 and session.verify([]).env_reward == 1.0


@pytest.mark.parametrize(
    ("call", "kind"), [({"name": TASKS.drill(TASK).solution()[0][0]}, "invalid_args"), ({}, "malformed_call")]
)
def test_a_call_that_lacks_a_part_is_played(world: World, call: Any, kind: str) -> None:
    """As a tokenizer's own parser may return it."""
    calls: Iterator[Any] = iter([[call]])
    with serving(talking(WORDS, script("Hm.", *solution()))) as engine:
        factory = world.factory(engine)
        chat = factory._policy.chat()
        read = chat.action

        def action(ids: Any) -> Any:
            found = next(calls, None)
            return {"text": "Hm.", "tool_calls": found} if found else read(ids)

        chat.action = action  # type: ignore[method-assign]
        session = factory.create(TASK)
        assert session.wait_for_completion() == PLAYED
        trace = session.fetch_training_trace()
    (told,) = trace.turns[0].response["choices"][0]["message"]["tool_calls"]
    assert told["function"] == {"name": call.get("name", ""), "arguments": "{}"}
    assert [error["kind"] for error in trace.turns[0].metadata["error_turns"]] == [kind]


def test_a_policy_that_only_talks_ends_its_episode(world: World) -> None:
    session, trace, _ = world.played(talking(WORDS, script("I do not know.")))
    finishes = [turn.response["choices"][0]["finish_reason"] for turn in trace.turns]
    assert finishes == ["stop", "stop"]  # it is reminded once
    assert trace.turns[1].request["messages"][-1]["role"] == "user" and sequence(trace)[1]["clean"] == 1
    verified = session.verify([])
    assert (verified.env_reward, verified.artifacts["end"]) == (0.0, "no_tool_call")


def test_an_episode_without_room_is_graded_as_it_is(world: World) -> None:
    """What ends it is no turn of the policy's, and none of the trace's."""
    session, trace, _ = world.played(talking(WORDS, script(*solution())), max_turn_ids=3, max_ids=100_000)
    assert trace.turns[0].response["choices"][0]["finish_reason"] == "length"
    room = len(trace.turns[0].prompt_token_ids) + 10
    session, trace, engine = world.played(talking(WORDS, script(*solution())), max_ids=room)
    verified = session.verify([])
    assert len(trace.turns) == len(engine.asked) == verified.metrics["turns"] == 1
    assert len(trace.turns[0].completion_token_ids) == 10 and verified.env_reward == 0.0
