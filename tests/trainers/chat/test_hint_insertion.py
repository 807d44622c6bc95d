"""Tests of hints as pure insertions into the ids of a dialogue, under the templates of many families."""

from __future__ import annotations

import json

import pytest
from helpers.template_writer import TASK, Writer, dialogue, families, played, unquoted

from etude.trainers.distillation.distill_sites import Insertion, Site

HINT = 'Reminder: there is no tool "grep"; the tools are: read_file, submit.\nRead the file that is named (a/b.py).'


@families
def test_hint_is_inserted_once_before_the_generation_prompt(name: str) -> None:
    writer = Writer(name)
    messages, answers = dialogue(writer.family)
    done, _ = played(writer, [writer.words(message) for message in messages], answers)
    for turn, kind in enumerate(("prompt", "tool", "tool", "user")):
        span = done.turns[turn]
        inserted = writer.chat.insert_for(done, turn, HINT)
        assert inserted is not None, kind
        assert (inserted.back == 0) is (kind in writer.family.own.split()), kind
        site = Site(turn, "x", span.begin - inserted.back, span.start, span.end, inserted.ids)
        teacher = site.teacher_ids(done.ids)
        assert teacher[-(span.end - span.start) :] == done.ids[span.start : span.end]
        assert teacher[: site.at] + teacher[site.at + len(site.hint) :] == done.ids[: span.end]
        prefix = writer.decode(teacher[: len(teacher) - (span.end - span.start)])
        written = HINT if HINT in prefix else json.dumps(HINT)[1:-1]
        assert prefix.count(written) == 1
        last = TASK["content"] if kind == "prompt" else answers[turn - 1][-1].content
        before, after = unquoted(prefix).split(HINT)
        assert last.strip() in before[-len(last) - 80 :] and "look_up" not in prefix
        assert len(after) <= 80 and after.endswith(writer.decode(done.ids[span.begin : span.start]))


@families
def test_hint_without_messages_names_the_ids_it_must_follow(name: str) -> None:
    writer = Writer(name)
    messages, answers = dialogue(writer.family)
    done, _ = played(writer, [writer.words(message) for message in messages], answers)
    for turn in (0, 1):
        inserted, tail = writer.chat.hint(HINT, turn == 0), writer.chat.tail(turn == 0)
        begin = done.turns[turn].begin
        assert inserted.back <= len(tail) and done.ids[begin - len(tail) : begin] == tail
        text = writer.decode(inserted.ids)
        assert HINT in text or json.dumps(HINT)[1:-1] in text


@families
@pytest.mark.parametrize(
    "end", ["ok", "done.", '{"a": [1]}', "said:\n\n", "two  ", "<a>", "it's", '"', "é", "\u2028", "a\\"]
)
def test_hint_is_inserted_whatever_the_message_ends_in(name: str, end: str) -> None:
    writer = Writer(name)
    messages, answers = dialogue(writer.family)
    answers = [
        [answer.model_copy(update={"content": f"{answer.content} {end}"}) for answer in group] for group in answers
    ]
    done, _ = played(writer, [writer.words(message) for message in messages], answers)
    for turn, span in enumerate(done.turns):
        inserted = writer.chat.insert_for(done, turn, HINT)
        assert inserted is not None
        at = span.begin - inserted.back
        prefix = writer.decode([*done.ids[:at], *inserted.ids, *done.ids[at : span.start]])
        assert prefix.count(HINT) + prefix.count(json.dumps(HINT)[1:-1]) == 1


def test_hint_is_refused_when_the_ids_are_not_the_templates() -> None:
    writer = Writer("gemma3")
    messages, answers = dialogue(writer.family)
    done, _ = played(writer, [writer.words(message) for message in messages], answers)
    done.ids[done.turns[1].begin - 2] += 1
    assert writer.chat.insert_for(done, 1, HINT) is None
    assert isinstance(writer.chat.insert_for(done, 0, HINT), Insertion)
    done.messages = []
    assert writer.chat.insert_for(done, 0, HINT) is None
