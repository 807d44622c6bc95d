"""Answers: which spellings of a text, of names and of a value are equal."""

from __future__ import annotations

import asyncio

import pytest

from etude.environments.grading import Submission, grade_submission
from etude.environments.grading.answer import is_answer, normal_form
from etude.models import AnswerVerifier, GeneratorRef, Task

NAMES = AnswerVerifier(answer="pkg.a, pkg.B.c", form="names")
VALUE = AnswerVerifier(answer="{'a': [1, 'x'], 'b': None}", form="value")


@pytest.mark.parametrize(
    "text",
    ["pkg.B.c, pkg.a", "pkg.a,pkg.B.c", "- `pkg.a`\n- `pkg.B.c`", "['pkg.a', 'pkg.B.c']", "pkg.a; pkg.B.c;pkg.a"],
)
def test_names_are_equal_in_any_order_spacing_and_list_notation(text: str) -> None:
    assert is_answer(text, NAMES)


@pytest.mark.parametrize("text", ["", "pkg.a", "pkg.a pkg.B.c", "pkg.a, pkg.B.c, pkg.d", "pkg.A, pkg.B.c"])
def test_a_missing_an_added_and_another_name_are_not_equal(text: str) -> None:
    assert not is_answer(text, NAMES)


@pytest.mark.parametrize("text", ['{"b":None,"a":[1,"x"]}', " `{'a': [1, 'x'], 'b':None}` ", "{'a':[1,'x',],'b':None}"])
def test_values_are_equal_whatever_their_quotes_spaces_and_order_of_keys(text: str) -> None:
    assert is_answer(text, VALUE)


@pytest.mark.parametrize("text", ["", "None", "{'a': [1.0, 'x'], 'b': None}", "{'a': ['x', 1], 'b':None}", "{'a': [1,"])
def test_other_values_and_broken_ones_are_not_equal(text: str) -> None:
    assert not is_answer(text, VALUE)


def test_a_text_as_value_may_be_written_without_its_quotes() -> None:
    verifier = AnswerVerifier(answer="'3 hours ago'", form="value")
    assert is_answer("3 hours ago", verifier) and is_answer('"3 hours ago"', verifier)
    assert not is_answer("3 hours", verifier)


def test_the_normal_form_of_a_normal_form_is_itself() -> None:
    for text, form in ((NAMES.answer, "names"), (VALUE.answer, "value"), ("four", "text")):
        assert normal_form(normal_form(text, form), form) == normal_form(text, form)


def test_an_answer_is_graded_without_running_code() -> None:
    task = Task(
        task_id="question",
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement="Which functions run?",
        verifier=NAMES.model_copy(update={"components": ["answer"]}),
    )
    rewards = [
        asyncio.run(grade_submission(Submission(task, answer=text)))[0].reward.value for text in ("pkg.B.c,pkg.a", "")
    ]
    assert rewards == [1.0, 0.0]


def test_rows_without_a_form_keep_their_bytes() -> None:
    assert AnswerVerifier(answer="four").model_dump() == {
        "kind": "answer",
        "answer": "four",
        "effects": {},
        "components": ["answer", "effects"],
    }
