"""Hints by a model, against an endpoint that answers, stalls, errs, talks rubbish and gives secrets away."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etude.errors import EndpointRefused, LLMError
from etude.hints import annotate
from etude.hints.write.llm_hints import OUTCOMES, HintCache, LLMHints, WrittenHint, given_away, secrets_of
from etude.llm import LLM, Budget
from etude.models import AnswerVerifier, GeneratorRef, Hint, Task

STATEMENT = "Write tally.total again: it adds up the values."
PATCH = """--- a/src/tally/core.py
+++ b/src/tally/core.py
@@ -1,2 +1,4 @@
 def total(values):
-    raise NotImplementedError
+    running_sum = 0
+    return sum_of_all(values, start=running_sum)
"""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Show a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
]
GOOD = "Call `read_file` with a path that list_files has shown."


def turn(number: int, path: str, status: str) -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "name": "read_file", "arguments": {"path": path}}
    return [
        {"role": "assistant", "text": f"look {number}", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "name": "read_file", "content": status},
    ]


MESSAGES = [
    {"role": "user", "content": STATEMENT},
    *turn(0, "README.md", "ok\n1\tTally adds up."),
    *turn(1, "src/taly.py", "error file_not_found: no such file: src/taly.py"),
    *turn(2, "src/tally/core.py", "ok\n1\tthe end of it all"),
]
ERRORS = annotate(MESSAGES, TOOLS)


def answer(endpoints: Any, hint: Any, **more: Any) -> Any:
    return endpoints.say(json.dumps({"hint": hint}), **more)


def hinted(
    endpoints: Any, script: Callable[[int, dict[str, Any]], Any], times: int = 1, *, secrets: Any = (), **options: Any
) -> tuple[list[WrittenHint], Any, LLM]:
    """``times`` hints for the one error at once, each for a statement of its own when there are several."""
    given = {name: options.pop(name) for name in ("source", "cache") if name in options}

    async def run(url: str) -> tuple[list[WrittenHint], LLM]:
        async with LLM("m", url, **{"attempts": 1, "timeout_s": 3.0, **options}) as llm:
            hints = LLMHints(llm, **given)
            calls = [
                hints.hint(ERRORS[0], MESSAGES, TOOLS, statement=f"{STATEMENT}{number or ''}", secrets=secrets)
                for number in range(times)
            ]
            return await asyncio.gather(*calls), llm

    with endpoints.serving(script) as endpoint:
        made, llm = asyncio.run(run(endpoint.url))
    return made, endpoint, llm


def test_the_transcript_has_one_error() -> None:
    assert [(error.turn, error.kind) for error in ERRORS] == [(1, "file_not_found")]
    assert ERRORS[0].hints[0].source == "template"


def test_the_prompt_holds_the_task_the_tools_the_turn_and_the_error_and_nothing_later(endpoints: Any) -> None:
    [made], endpoint, llm = hinted(endpoints, lambda number, body: answer(endpoints, GOOD))
    assert made == WrittenHint(Hint(text=GOOD, source="llm"), "accepted", cached=False)
    assert llm.usage.calls == 1
    told = json.dumps(endpoint.requests[0]["messages"])
    for part in (STATEMENT, "read_file", "look 0", "Tally adds up.", "src/taly.py", "no such file", "file_not_found"):
        assert part in told
    assert "the end of it all" not in told
    assert "just before that turn" in told


def test_the_policy_can_be_asked_itself(endpoints: Any) -> None:
    [made], endpoint, _ = hinted(endpoints, lambda number, body: answer(endpoints, GOOD), source="introspect")
    assert made.hint == Hint(text=GOOD, source="introspect")
    assert "that you would have needed" in endpoint.requests[0]["messages"][0]["content"]


@pytest.mark.parametrize(
    "text",
    [
        'Of course:\n```json\n{"hint": "%s"}\n```',
        '<think>{"hint": "no"}</think>{"hint": "%s", "why": 1}',
        '{"hint": "  %s\n "}',
    ],
)
def test_words_around_the_answer_are_forgiven(text: str, endpoints: Any) -> None:
    [made], _, _ = hinted(endpoints, lambda number, body: endpoints.say(text % GOOD))
    assert made.hint == Hint(text=GOOD, source="llm")


@pytest.mark.parametrize("name", ["STALL", "RESET", "GARBAGE", "TRUNCATED", "DRIP"])
def test_an_endpoint_that_fails_leaves_the_template(name: str, endpoints: Any) -> None:
    [made], _, _ = hinted(endpoints, lambda number, body: getattr(endpoints, name))
    assert made == WrittenHint(ERRORS[0].hints[0], "failed", cached=False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Use list_files.",
        "{",
        '{"hint": ""}',
        '{"hint": 7}',
        '{"hint": ["a"]}',
        '["hint"]',
        '{"hints": "a"}',
        "{" * 9999,
    ],
)
def test_an_answer_that_is_not_as_asked_leaves_the_template(text: str, endpoints: Any) -> None:
    [made], _, llm = hinted(endpoints, lambda number, body: endpoints.say(text))
    assert made == WrittenHint(ERRORS[0].hints[0], "unreadable", cached=False)
    assert llm.usage.calls == 1


def test_a_long_hint_is_cut_after_a_whole_sentence(endpoints: Any) -> None:
    long = "First list the files. " + "Then read the one that you need. " * 30
    [made], _, _ = hinted(endpoints, lambda number, body: answer(endpoints, long))
    assert made.hint is not None
    assert 300 < len(made.hint.text) <= 400
    assert made.hint.text.endswith("you need.")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Write return sum_of_all(values, start=running_sum) there.", False),
        ("Begin with running_sum at zero.", False),
        ("See tests/test_hidden.py::test_total.", False),
        ("Read src/taly.py elsewhere: it adds up the values.", True),
    ],
)
def test_a_hint_that_gives_the_solution_or_a_hidden_test_away_is_dropped(text: str, kept: bool, endpoints: Any) -> None:
    secrets = [PATCH, "tests/test_hidden.py::test_total"]
    [made], _, _ = hinted(endpoints, lambda number, body: answer(endpoints, text), secrets=secrets)
    assert made.hint is not None
    assert (made.hint.source, made.outcome) == (("llm", "accepted") if kept else ("template", "leaked"))


def test_a_short_answer_counts_as_a_whole_unless_it_was_said() -> None:
    assert given_away("Submit k7qx-22 now.", ["K7QX-22"], []) == "K7QX-22"
    assert given_away("Submit k7qx-229 now.", ["K7QX-22"], []) is None
    assert given_away("Submit K7QX-22 now.", ["K7QX-22"], ["ok\nthe code is K7QX-22"]) is None


def test_the_secrets_of_a_task_are_its_solution_tests_and_answer() -> None:
    about = {"generator": GeneratorRef(name="g", version="1", seed=0), "problem_statement": "s"}
    row = Task(task_id="a", patch="p", test_patch="t", FAIL_TO_PASS=["x::y"], PASS_TO_PASS=["v::w"], **about)
    drill = Task(task_id="b", verifier=AnswerVerifier(answer="42", effects={"k": "v"}), **about)
    assert (secrets_of(row), secrets_of(drill)) == (["p", "t", "x::y"], ["42", "v"])


async def ask_twice(url: str, cache: HintCache, **settings: Any) -> list[WrittenHint]:
    async with LLM("m", url) as llm:
        hints = LLMHints(llm, cache=cache, settings=settings)
        calls = [hints.hint(ERRORS[0], MESSAGES, TOOLS, statement=STATEMENT) for _ in range(2)]
        return list(await asyncio.gather(*calls))


def test_the_same_question_is_asked_once(endpoints: Any, tmp_path: Path) -> None:
    file = tmp_path / "hints.jsonl"
    with endpoints.serving(lambda number, body: answer(endpoints, f"{GOOD} Né {number}")) as endpoint:
        first = asyncio.run(ask_twice(endpoint.url, HintCache(file)))
        whole = file.read_bytes()
        file.write_bytes(whole + whole[:-9])
        later = asyncio.run(ask_twice(endpoint.url, HintCache(file)))
    assert [made.hint for made in first + later] == [Hint(text=f"{GOOD} Né 0", source="llm")] * 4
    assert [made.cached for made in first + later] == [False, True, True, True]
    assert len(endpoint.requests) == 1
    assert file.read_bytes() == whole


def test_an_answer_that_cannot_be_read_is_paid_once_too(endpoints: Any, tmp_path: Path) -> None:
    file = tmp_path / "hints.jsonl"
    with endpoints.serving(lambda number, body: endpoints.say("no object")) as endpoint:
        made = [*asyncio.run(ask_twice(endpoint.url, HintCache(file)))]
        made += asyncio.run(ask_twice(endpoint.url, HintCache(file)))
    assert {each.outcome for each in made} == {"unreadable"}
    assert len(endpoint.requests) == 1


def test_other_settings_are_asked_anew(endpoints: Any) -> None:
    cache = HintCache()
    with endpoints.serving(lambda number, body: answer(endpoints, GOOD)) as endpoint:
        asyncio.run(ask_twice(endpoint.url, cache, temperature=0.0))
        asyncio.run(ask_twice(endpoint.url, cache, temperature=1.0))
    assert len(endpoint.requests) == 2


def test_a_cached_hint_is_checked_against_the_secrets_of_today(endpoints: Any) -> None:
    cache = HintCache()
    script = lambda number, body: answer(endpoints, "Begin with running_sum at zero.")  # noqa: E731
    [before], _, _ = hinted(endpoints, script, cache=cache)
    [after], _, _ = hinted(endpoints, script, cache=cache, secrets=[PATCH])
    assert (before.outcome, after.outcome) == ("accepted", "leaked")
    assert after == WrittenHint(ERRORS[0].hints[0], "leaked", cached=True)


def test_a_broken_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text("[]\n")
    with pytest.raises(LLMError, match=r"odd.jsonl cannot be read .*: remove the file"):
        HintCache(tmp_path / "odd.jsonl")


def test_an_endpoint_that_refuses_is_no_fallback(endpoints: Any) -> None:
    with pytest.raises(EndpointRefused, match="check the key"):
        hinted(endpoints, lambda number, body: endpoints.fail(401))


def test_all_at_once_every_outcome_is_counted_and_the_budget_kept(endpoints: Any) -> None:
    answers = [
        answer(endpoints, GOOD, usage=(400, 20)),
        endpoints.STALL,
        endpoints.fail(500),
        endpoints.fail(429, Retry_After="0"),
        endpoints.RESET,
        endpoints.GARBAGE,
        endpoints.TRUNCATED,
        endpoints.say("no object", usage=(400, 20)),
        answer(endpoints, "Begin with running_sum at zero.", usage=(400, 20)),
    ]
    budget = 60_000
    made, endpoint, llm = hinted(
        endpoints,
        lambda number, body: answers[number % len(answers)],
        120,
        secrets=[PATCH],
        budget=Budget(tokens=budget),
        max_tokens=100,
        concurrency=6,
    )
    counts = Counter(each.outcome for each in made)
    assert (set(counts), counts.total()) == (set(OUTCOMES), 120)
    for each in made:
        assert each.hint == (Hint(text=GOOD, source="llm") if each.outcome == "accepted" else ERRORS[0].hints[0])
    assert counts["budget"] == 120 - len(endpoint.requests)
    bound = max(len(json.dumps(body)) for body in endpoint.requests) + 100
    assert llm.usage.prompt_tokens + llm.usage.completion_tokens <= budget + bound
    assert llm.usage.unanswered >= 4
