"""Chat templates of many families as ids: prompts, replies, calls, hints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from helpers.tokenizer_factory import FAMILIES, SHIPPED, Family, tokenizer
from trl.chat_template_utils import add_response_schema

from etude.client import Client
from etude.hints.transcript.parsing import parse_turn
from etude.models import Observation, Reward, State, ToolMessage
from etude.trainers.chat.chat_policy import ChatError, TemplateChat
from etude.trainers.distillation.distill_sites import Insertion, Site
from etude.trainers.rollouts.rollout import Rollout, Sample, rollout

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"It can {name}.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string", "description": "Where."}}},
        },
    }
    for name in ("read_file", "submit")
]
TASK = {"role": "user", "content": "Find the answer, and submit it."}
HINT = 'Reminder: there is no tool "grep"; the tools are: read_file, submit.\nRead the file that is named (a/b.py).'
RESULTS = ["ok\nthe ledger is read by id.", "error file_not_found: no such file: a/c.py\n", "exit 1", 'ok\n{"a": "b"}']
NO_CALL = "No tool was called."


async def nothing(ids: Sequence[int], room: int) -> Sample:
    raise AssertionError("nobody samples here")


def chat_of(name: str) -> TemplateChat:
    return TemplateChat(tokenizer(name), nothing, arguments=FAMILIES[name].arguments)


def call(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    return {"id": f"call{number:05}", "type": "function", "function": {"name": name, "arguments": arguments}}


class Writer:
    """What a well-trained model of a family writes: just what its template does."""

    def __init__(self, name: str) -> None:
        self.name, self.family = name, FAMILIES[name]
        self.tokenizer = tokenizer(name)
        self.chat = TemplateChat(self.tokenizer, nothing, arguments=self.family.arguments)
        opened = not self.family.thought or self.family.thought.startswith("<think>")
        self.thought = self.family.thought if opened else f"<think>\n{self.family.thought}"

    def rendered(self, messages: Sequence[Mapping[str, Any]], *, generation: bool = False, text: bool = False) -> Any:
        if self.name == "deepseek-r1":
            messages = json.loads(json.dumps(messages))
            for each in messages:
                for made in each.get("tool_calls", []):
                    made["function"]["arguments"] = json.dumps(made["function"]["arguments"])
        return self.tokenizer.apply_chat_template(
            messages,
            tools=TOOLS,
            add_generation_prompt=generation,
            tokenize=not text,
            return_dict=False,
            **self.family.arguments,
        )

    def words(self, message: Mapping[str, Any]) -> str:
        """An assistant's turn up to its end, after a thought where the family thinks."""
        before = self.rendered([TASK], generation=True, text=True)
        whole = self.rendered([TASK, message], text=True)
        said = whole[len(before) :] if whole.startswith(before) else whole.split("<｜Assistant｜>")[-1]
        said = said.removeprefix("<think>\n").removeprefix("\n</think>\n\n")
        ends = [said.index(end) + len(end) for end in map(self.decode, self.chat.stops) if end in said]
        return self.family.thought + said[: min(ends)]

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int] | int) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))


class Scripted:
    """An environment that answers as it is told."""

    def __init__(self, answers: Sequence[Sequence[ToolMessage]]) -> None:
        self.answers = list(answers)
        self.actions: list[Mapping[str, Any]] = []

    async def reset(self, **arguments: Any) -> Observation:
        return Observation(prompt=TASK["content"], tools=TOOLS)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        self.actions.append(action)
        answers = self.answers[len(self.actions) - 1] if len(self.actions) <= len(self.answers) else []
        return Observation(messages=list(answers), done=len(self.actions) >= len(self.answers))

    async def state(self) -> State:
        return State(episode_id="e", task_id="t", reward=Reward(value=1.0), end="submit")


def answer(number: int, content: str, name: str = "read_file") -> ToolMessage:
    return ToolMessage(tool_call_id=f"call{number:05}", name=name, content=content)


def dialogue(family: Family, *, calls_only: bool = False) -> tuple[list[dict[str, Any]], list[list[ToolMessage]]]:
    """Assistant messages, and what answers each: a call, several calls, words alone, the end."""
    said: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "tool_calls": [call("read_file", 1, path="a/b.py")]},
        {"role": "assistant", "content": "", "tool_calls": [call("read_file", 2, path="c"), call("read_file", 3)]},
        {"role": "assistant", "content": "It is found."},
        {"role": "assistant", "content": "", "tool_calls": [call("submit", 4, answer=7)]},
    ]
    answers = [
        [answer(1, RESULTS[0])],
        [answer(2, RESULTS[1]), answer(3, RESULTS[2])],
        [ToolMessage(role="user", content=NO_CALL)],
        [answer(4, "ok\nsubmitted", "submit")],
    ]
    if not family.several:
        said[1]["tool_calls"].pop()
        answers[1].pop()
    kept = [turn for turn in range(4) if not (calls_only and turn == 2)]
    return [said[turn] for turn in kept], [answers[turn] for turn in kept]


def played(writer: Writer, turns: Sequence[str], answers: Sequence[Sequence[ToolMessage]]) -> tuple[Rollout, Scripted]:
    """A rollout in which the model writes ``turns``."""
    script = iter(turns)

    async def sample(ids: Sequence[int], room: int) -> Sample:
        written = writer.encode(next(script))[:room]
        return Sample(written, [-0.5] * len(written))

    chat = TemplateChat(writer.tokenizer, sample, arguments=writer.family.arguments)
    client = Scripted(answers)
    return asyncio.run(rollout({}, chat, cast("Client", client))), client


def unquoted(text: str) -> str:
    """Some templates write results as JSON."""
    return text.replace("\\n", "\n").replace('\\"', '"')


families = pytest.mark.parametrize("name", list(FAMILIES))


@families
def test_a_dialogue_is_played_without_writing_any_of_it_twice(name: str) -> None:
    writer = Writer(name)
    said, answers = dialogue(writer.family)
    texts = [writer.words(message) for message in said]
    done, client = played(writer, texts, answers)
    assert [writer.decode(done.ids[turn.start : turn.end]) for turn in done.turns] == texts
    opened = [writer.decode(done.ids[turn.begin : turn.start]) for turn in done.turns]
    asked = writer.rendered([TASK], generation=True, text=True)
    assert asked.endswith(opened[0]) and done.prompt == done.turns[0].start
    assert opened[3] == opened[0]  # after words, which a user answers
    assert sum(done.mask) == sum(turn.end - turn.start for turn in done.turns) == len([p for p in done.logprobs if p])
    between = [writer.decode(done.ids[a.end : b.begin]) for a, b in zip(done.turns, done.turns[1:], strict=False)]
    for text, replies in zip(between, answers, strict=False):
        plain = unquoted(text)
        assert all(plain.count(reply.content.strip()) == 1 for reply in replies) and "look_up" not in plain
    asked_for = [[each["name"] for each in action.get("tool_calls", [])] for action in client.actions]
    assert asked_for == [[each["function"]["name"] for each in message.get("tool_calls", [])] for message in said]


@families
def test_ids_are_those_of_the_whole_dialogue_where_the_template_keeps_old_turns(name: str) -> None:
    writer = Writer(name)
    for calls_only in (False, True):
        said, answers = dialogue(writer.family, calls_only=calls_only)
        done, _ = played(writer, [writer.words(message) for message in said], answers)
        messages: list[dict[str, Any]] = [TASK]
        for message, replies in zip(said, answers, strict=True):
            messages += [message, *(reply.model_dump() for reply in replies)]
        whole = writer.rendered(messages[:-1])
        same = writer.family.same == "all" or (writer.family.same == "calls" and calls_only)
        assert (whole[: len(done.ids)] == done.ids) is same


@families
def test_a_turn_that_was_cut_is_closed_and_another_is_not_closed_twice(name: str) -> None:
    writer = Writer(name)
    said, answers = dialogue(writer.family)
    for message, replies in zip(said[:3:2], answers[:3:2], strict=True):
        results = [reply.model_dump() for reply in replies]
        ids = writer.encode(writer.words(message))
        cut, whole = writer.chat.reply(ids[:-2], results), writer.chat.reply(ids, results)
        assert cut.ids == [ids[-1], *whole.ids] and cut.generation == whole.generation + 1
        assert ids[-1] in writer.chat.stops and results[0]["content"] in unquoted(writer.decode(whole.ids))


@families
def test_results_come_in_order_whatever_their_ids_and_names(name: str) -> None:
    writer = Writer(name)
    results = [answer(1, "ok\none"), answer(2, "ok\ntwo", name=""), answer(3, "ok\nthree", name="no such")]
    made = [result.model_dump() | {"tool_call_id": f"call_11_{n}"} for n, result in enumerate(results)]
    for answers in ([results[0].model_dump()], made[:1], made[1:2], made):
        text = writer.decode(writer.chat.reply([], answers).ids)
        numbers = ["one", "two", "three"]
        at = [text.find(number) for number in numbers if any(number in each["content"] for each in answers)]
        assert at == sorted(at) and -1 not in at and "look_up" not in text


@families
def test_marks_in_a_result_are_text(name: str) -> None:
    writer = Writer(name)
    forged = "".join([*map(writer.decode, sorted(writer.chat.stops)), *writer.family.special, *writer.family.added])
    plain, odd = (
        writer.chat.reply([], [{"role": role, "content": content, "tool_call_id": "call00001", "name": "a"}]).ids
        for role, content in (("tool", "ok\nx"), ("tool", f"ok\n{forged} x"))
    )
    marks = {*writer.tokenizer.all_special_ids, *writer.tokenizer.get_added_vocab().values()}
    assert [each for each in odd if each in marks] == [each for each in plain if each in marks]
    assert forged in unquoted(writer.decode(odd))


@families
def test_calls_are_read_as_they_are_written(name: str) -> None:
    writer = Writer(name)
    arguments = {"path": 'a "b" {c}\n</tool_call> [1]; {"name": 2}', "count": 3, "deep": {"x": [True, None]}}
    text = writer.words({"role": "assistant", "content": "", "tool_calls": [call("read_file", 7, **arguments)]})
    action = writer.chat.action(writer.encode(text))
    (found,) = parse_turn(action, 0).calls
    assert (found.name, found.arguments, found.problem) == ("read_file", arguments, "")
    assert action["text"] == writer.thought.strip()


@families
def test_a_broken_call_reaches_the_environment_as_malformed(name: str) -> None:
    writer = Writer(name)
    text = writer.words({"role": "assistant", "content": "", "tool_calls": [call("read_file", 7, path="a/b.py")]})
    place = text.rindex("b.py")
    unclosed = text[:place]
    missing = text[: place - 3] + text[place + 4 :].replace('"', "", 1).replace('<|"|>', "", 1)
    for broken in (unclosed, missing) if "<function=" not in text else (unclosed,):
        (found,) = parse_turn(writer.chat.action(writer.encode(broken)), 0).calls
        assert found.name == "read_file"
        assert found.problem.startswith("malformed_call: "), broken
        assert "a/" in found.raw or "path" in found.raw


@families
def test_words_alone_are_no_call_and_keep_their_marks(name: str) -> None:
    writer = Writer(name)
    said = "It is {found}: see <b> [1]."
    text = writer.words({"role": "assistant", "content": said})
    assert writer.chat.action(writer.encode(text)) == {"text": writer.thought + said}
    assert writer.chat.action(writer.encode(text)[:-1]) == {"text": writer.thought + said}  # cut before its end
    assert writer.chat.action([]) == {"text": ""}


@families
def test_a_hint_is_inserted_once_before_the_generation_prompt(name: str) -> None:
    writer = Writer(name)
    said, answers = dialogue(writer.family)
    done, _ = played(writer, [writer.words(message) for message in said], answers)
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
def test_a_hint_that_knows_no_message_names_the_ids_that_it_presumes(name: str) -> None:
    writer = Writer(name)
    said, answers = dialogue(writer.family)
    done, _ = played(writer, [writer.words(message) for message in said], answers)
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
def test_a_hint_finds_its_place_after_whatever_a_message_ends_in(name: str, end: str) -> None:
    writer = Writer(name)
    said, answers = dialogue(writer.family)
    answers = [[each.model_copy(update={"content": f"{each.content} {end}"}) for each in group] for group in answers]
    done, _ = played(writer, [writer.words(message) for message in said], answers)
    for turn, span in enumerate(done.turns):
        inserted = writer.chat.insert_for(done, turn, HINT)
        assert inserted is not None
        at = span.begin - inserted.back
        prefix = writer.decode([*done.ids[:at], *inserted.ids, *done.ids[at : span.start]])
        assert prefix.count(HINT) + prefix.count(json.dumps(HINT)[1:-1]) == 1


def test_ids_that_the_template_does_not_write_take_no_hint() -> None:
    writer = Writer("gemma3")
    said, answers = dialogue(writer.family)
    done, _ = played(writer, [writer.words(message) for message in said], answers)
    done.ids[done.turns[1].begin - 2] += 1
    assert writer.chat.insert_for(done, 1, HINT) is None
    assert isinstance(writer.chat.insert_for(done, 0, HINT), Insertion)
    done.messages = []
    assert writer.chat.insert_for(done, 0, HINT) is None


@pytest.mark.parametrize("name", ["qwen3", "deepseek-r1"])
def test_turns_that_only_think_keep_their_mask_though_the_template_drops_old_thoughts(name: str) -> None:
    writer = Writer(name)
    end = writer.tokenizer.eos_token
    thought = writer.family.thought.strip() + end
    turns = [thought, thought, writer.words(dialogue(writer.family)[0][3])]
    user = [ToolMessage(role="user", content=NO_CALL)]
    done, client = played(writer, turns, [user, user, [answer(4, "ok", "submit")]])
    assert [writer.decode(done.ids[turn.start : turn.end]) for turn in done.turns] == turns
    assert all(turn.end > turn.start for turn in done.turns) and sum(done.mask) == sum(
        map(len, map(writer.encode, turns))
    )
    assert [action.get("tool_calls", []) for action in client.actions[:2]] == [[], []]
    messages = [TASK, {"role": "assistant", "content": thought.removesuffix(end)}, {"role": "user", "content": NO_CALL}]
    assert "Hm." not in writer.rendered(messages, text=True)
    assert writer.decode(done.ids).count("Hm.") == 3


def test_a_call_in_a_thought_is_none() -> None:
    writer = Writer("qwen3")
    call_text = '<tool_call>\n{"name": "submit", "arguments": {}}\n</tool_call>'
    thought = f"<think>\nShall I {call_text}?\n</think>\n\n"
    action = writer.chat.action(writer.encode(thought + call_text + "<|im_end|>"))
    assert action == {"text": thought.strip(), "tool_calls": [{"name": "submit", "arguments": {}}]}
    assert writer.chat.action(writer.encode(thought[:60])) == {"text": thought[:60].strip()}


def test_qwen_coders_calls_are_read() -> None:
    writer = Writer("qwen2.5")
    text = "Look.\n<tool_call>\n<function=read_file>\n<parameter=path>\na/b.py\n</parameter>\n</function>\n</tool_call>"
    expected = {"text": "Look.", "tool_calls": [{"name": "read_file", "arguments": {"path": "a/b.py"}}]}
    assert writer.chat.action(writer.encode(text + "<|im_end|>")) == expected
    numbers = text.replace("a/b.py", "12").replace("</function>", "<parameter=count>\n12\n</parameter>\n</function>")
    assert writer.chat.action(writer.encode(numbers))["tool_calls"][0]["arguments"] == {"path": 12, "count": 12}
    writer.chat.prompt([TASK], TOOLS)
    assert writer.chat.action(writer.encode(numbers))["tool_calls"][0]["arguments"] == {"path": "12", "count": 12}


def test_llamas_calls_come_with_a_mark_or_without_one_or_several() -> None:
    writer = Writer("llama3.1")
    one, two = '{"name": "a", "parameters": {"x": "1; {"}}', '{"type": "function", "name": "b", "parameters": {}}'
    for text, names in ((one, ["a"]), (f"<|python_tag|>{one}; {two}", ["a", "b"]), (f"I call:\n{one}\nSo.", ["a"])):
        action = writer.chat.action(writer.encode(text))
        assert [each["name"] for each in action["tool_calls"]] == names
    (broken,) = writer.chat.action(writer.encode('<|python_tag|>search.call(query="x")'))["tool_calls"]
    assert parse_turn({"tool_calls": [broken]}, 0).calls[0].problem.startswith("malformed_call")


def test_a_form_unknown_here_is_read_by_the_tokenizers_own_parser() -> None:
    made = tokenizer("qwen2.5", (SHIPPED / "lfm2_2_5.jinja").read_text("utf-8"))
    made.add_tokens(["<|tool_call_start|>", "<|tool_call_end|>"])
    made.bos_token = "<|endoftext|>"
    with pytest.raises(ChatError, match="response_template"):
        TemplateChat(made, nothing)
    chat = TemplateChat(add_response_schema(made), nothing)
    text = "I look.<|tool_call_start|>[read_file(path='a/b.py', count=3)]<|tool_call_end|><|im_end|>"
    action = chat.action(made.encode(text, add_special_tokens=False))
    assert action == {
        "text": "I look.",
        "tool_calls": [{"name": "read_file", "arguments": {"path": "a/b.py", "count": 3}}],
    }
    assert chat.action(made.encode("I look.<|im_end|>", add_special_tokens=False)) == {"text": "I look."}


def test_the_systems_message_is_part_of_the_prompt() -> None:
    writer = Writer("qwen2.5")
    messages = [{"role": "system", "content": "Be brief."}, TASK]
    written = writer.chat.prompt(messages, TOOLS)
    assert written.ids == writer.rendered(messages, generation=True)
    assert writer.decode(written.ids[written.generation :]) == "<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("", "no chat template"),
        ("phi3", "does not render tools"),
        ("gemma", "does not render tools"),
        ("gemma3", "does not render tools"),
        ("deepseekv3", "does not render tools"),
        ("deepseek_r1_distill", "does not render tools"),
        (
            "{{ tools }}{% for m in messages %}{{ m.content if m.role == 'user' }}{% endfor %}",
            "tool calls and their results",
        ),
        (
            "{{ tools }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.tool_calls }}\n{% endfor %}",
            "token of its own",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(template: str, reason: str) -> None:
    shipped = SHIPPED / f"{template}.jinja"
    made = tokenizer("qwen2.5", shipped.read_text("utf-8") if "{" not in template and template else template)
    with pytest.raises(ChatError, match=reason) as refused:
        TemplateChat(made, nothing)
    assert "\n" not in str(refused.value)


def test_a_processor_of_images_is_refused() -> None:
    class Processor:
        image_processor = None
        chat_template = "x"

    with pytest.raises(ChatError, match="images"):
        TemplateChat(Processor(), nothing)


def test_messages_that_the_template_refuses_are_named() -> None:
    with pytest.raises(ChatError, match="alternate"):
        chat_of("gemma3").prompt([TASK, TASK], TOOLS)
