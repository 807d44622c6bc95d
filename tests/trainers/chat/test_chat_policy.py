"""Tests of chat templates of many families as ids: prompts, replies and calls."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.template_writer import (
    NO_CALL,
    TASK,
    TOOLS,
    Writer,
    answer,
    call,
    dialogue,
    families,
    played,
    unquoted,
)
from helpers.tokenizer_factory import SHIPPED, tokenizer
from trl.chat_template_utils import add_response_schema

from etude.errors import ChatError
from etude.hints.transcript.parsing import parse_turn
from etude.models import ToolMessage
from etude.trainers.chat.chat_policy import TemplateChat, never_samples


@families
def test_rollout_renders_every_message_of_a_dialogue_once(name: str) -> None:
    writer = Writer(name)
    messages, answers = dialogue(writer.family)
    texts = [writer.words(message) for message in messages]
    done, client = played(writer, texts, answers)
    assert [writer.decode(done.ids[turn.start : turn.end]) for turn in done.turns] == texts
    opened = [writer.decode(done.ids[turn.begin : turn.start]) for turn in done.turns]
    prompt = writer.rendered([TASK], generation=True, text=True)
    assert prompt.endswith(opened[0]) and done.prompt == done.turns[0].start
    assert opened[3] == opened[0]  # after words, which a user message answers
    assert sum(done.mask) == sum(turn.end - turn.start for turn in done.turns) == len([p for p in done.logprobs if p])
    between = [writer.decode(done.ids[a.end : b.begin]) for a, b in zip(done.turns, done.turns[1:], strict=False)]
    for text, replies in zip(between, answers, strict=False):
        plain = unquoted(text)
        assert all(plain.count(reply.content.strip()) == 1 for reply in replies) and "look_up" not in plain
    asked_for = [[tool_call["name"] for tool_call in action.get("tool_calls", [])] for action in client.actions]
    assert asked_for == [
        [tool_call["function"]["name"] for tool_call in message.get("tool_calls", [])] for message in messages
    ]


@families
def test_rollout_ids_equal_the_rendered_dialogue_where_the_template_keeps_old_turns(name: str) -> None:
    writer = Writer(name)
    for calls_only in (False, True):
        messages, answers = dialogue(writer.family, calls_only=calls_only)
        done, _ = played(writer, [writer.words(message) for message in messages], answers)
        whole_dialogue: list[dict[str, Any]] = [TASK]
        for message, replies in zip(messages, answers, strict=True):
            whole_dialogue += [message, *(reply.model_dump() for reply in replies)]
        whole = writer.rendered(whole_dialogue[:-1])
        same = writer.family.same == "all" or (writer.family.same == "calls" and calls_only)
        assert (whole[: len(done.ids)] == done.ids) is same


@families
def test_reply_closes_a_turn_only_when_it_was_cut(name: str) -> None:
    writer = Writer(name)
    messages, answers = dialogue(writer.family)
    for message, replies in zip(messages[:3:2], answers[:3:2], strict=True):
        results = [reply.model_dump() for reply in replies]
        ids = writer.encode(writer.words(message))
        cut, whole = writer.chat.reply(ids[:-2], results), writer.chat.reply(ids, results)
        assert cut.ids == [ids[-1], *whole.ids] and cut.generation == whole.generation + 1
        assert ids[-1] in writer.chat.stops and results[0]["content"] in unquoted(writer.decode(whole.ids))


@families
def test_reply_has_the_results_in_order_whatever_their_ids_and_names(name: str) -> None:
    writer = Writer(name)
    results = [answer(1, "ok\none"), answer(2, "ok\ntwo", name=""), answer(3, "ok\nthree", name="no such")]
    renumbered = [result.model_dump() | {"tool_call_id": f"call_11_{n}"} for n, result in enumerate(results)]
    for answers in ([results[0].model_dump()], renumbered[:1], renumbered[1:2], renumbered):
        text = writer.decode(writer.chat.reply([], answers).ids)
        numbers = ["one", "two", "three"]
        at = [text.find(number) for number in numbers if any(number in message["content"] for message in answers)]
        assert at == sorted(at) and -1 not in at and "look_up" not in text


@families
def test_special_tokens_in_a_result_stay_text(name: str) -> None:
    writer = Writer(name)
    forged = "".join([*map(writer.decode, sorted(writer.chat.stops)), *writer.family.special, *writer.family.added])
    plain, odd = (
        writer.chat.reply([], [{"role": role, "content": content, "tool_call_id": "call00001", "name": "a"}]).ids
        for role, content in (("tool", "ok\nx"), ("tool", f"ok\n{forged} x"))
    )
    special_ids = {*writer.tokenizer.all_special_ids, *writer.tokenizer.get_added_vocab().values()}
    assert [token for token in odd if token in special_ids] == [token for token in plain if token in special_ids]
    assert forged in unquoted(writer.decode(odd))


@families
def test_action_reads_a_call_as_it_was_written(name: str) -> None:
    writer = Writer(name)
    arguments = {"path": 'a "b" {c}\n</tool_call> [1]; {"name": 2}', "count": 3, "deep": {"x": [True, None]}}
    text = writer.words({"role": "assistant", "content": "", "tool_calls": [call("read_file", 7, **arguments)]})
    action = writer.chat.action(writer.encode(text))
    (read,) = parse_turn(action, 0).calls
    assert (read.name, read.arguments, read.problem) == ("read_file", arguments, "")
    assert action["text"] == writer.thought.strip()


@families
def test_action_passes_on_a_malformed_call(name: str) -> None:
    writer = Writer(name)
    text = writer.words({"role": "assistant", "content": "", "tool_calls": [call("read_file", 7, path="a/b.py")]})
    place = text.rindex("b.py")
    unclosed = text[:place]
    missing = text[: place - 3] + text[place + 4 :].replace('"', "", 1).replace('<|"|>', "", 1)
    for broken in (unclosed, missing) if "<function=" not in text else (unclosed,):
        (read,) = parse_turn(writer.chat.action(writer.encode(broken)), 0).calls
        assert read.name == "read_file"
        assert read.problem.startswith("malformed_call: "), broken
        assert "a/" in read.raw or "path" in read.raw


@families
def test_action_without_a_call_keeps_its_words_unchanged(name: str) -> None:
    writer = Writer(name)
    words = "It is {found}: see <b> [1]."
    text = writer.words({"role": "assistant", "content": words})
    assert writer.chat.action(writer.encode(text)) == {"text": writer.thought + words}
    assert writer.chat.action(writer.encode(text)[:-1]) == {
        "text": writer.thought + words
    }  # the turn was cut before its end
    assert writer.chat.action([]) == {"text": ""}


@pytest.mark.parametrize("name", ["qwen3", "deepseek-r1"])
def test_turns_that_only_think_keep_their_mask_when_the_template_drops_old_thoughts(name: str) -> None:
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


def test_action_ignores_a_call_inside_a_thought() -> None:
    writer = Writer("qwen3")
    call_text = '<tool_call>\n{"name": "submit", "arguments": {}}\n</tool_call>'
    thought = f"<think>\nShall I {call_text}?\n</think>\n\n"
    action = writer.chat.action(writer.encode(thought + call_text + "<|im_end|>"))
    assert action == {"text": thought.strip(), "tool_calls": [{"name": "submit", "arguments": {}}]}
    assert writer.chat.action(writer.encode(thought[:60])) == {"text": thought[:60].strip()}


def test_action_reads_qwen_coders_calls_with_the_types_of_the_tools() -> None:
    writer = Writer("qwen2.5")
    text = "Look.\n<tool_call>\n<function=read_file>\n<parameter=path>\na/b.py\n</parameter>\n</function>\n</tool_call>"
    expected = {"text": "Look.", "tool_calls": [{"name": "read_file", "arguments": {"path": "a/b.py"}}]}
    assert writer.chat.action(writer.encode(text + "<|im_end|>")) == expected
    numbers = text.replace("a/b.py", "12").replace("</function>", "<parameter=count>\n12\n</parameter>\n</function>")
    assert writer.chat.action(writer.encode(numbers))["tool_calls"][0]["arguments"] == {"path": 12, "count": 12}
    writer.chat.prompt([TASK], TOOLS)
    assert writer.chat.action(writer.encode(numbers))["tool_calls"][0]["arguments"] == {"path": "12", "count": 12}


def test_action_reads_llamas_calls_with_and_without_the_python_tag() -> None:
    writer = Writer("llama3.1")
    one, two = '{"name": "a", "parameters": {"x": "1; {"}}', '{"type": "function", "name": "b", "parameters": {}}'
    for text, names in ((one, ["a"]), (f"<|python_tag|>{one}; {two}", ["a", "b"]), (f"I call:\n{one}\nSo.", ["a"])):
        action = writer.chat.action(writer.encode(text))
        assert [tool_call["name"] for tool_call in action["tool_calls"]] == names
    (broken,) = writer.chat.action(writer.encode('<|python_tag|>search.call(query="x")'))["tool_calls"]
    assert parse_turn({"tool_calls": [broken]}, 0).calls[0].problem.startswith("malformed_call")


def test_action_uses_the_tokenizers_own_parser_when_the_format_is_unknown() -> None:
    words = tokenizer("qwen2.5", (SHIPPED / "lfm2_2_5.jinja").read_text("utf-8"))
    words.add_tokens(["<|tool_call_start|>", "<|tool_call_end|>"])
    words.bos_token = "<|endoftext|>"
    with pytest.raises(ChatError, match="response_template"):
        TemplateChat(words, never_samples)
    chat = TemplateChat(add_response_schema(words), never_samples)
    text = "I look.<|tool_call_start|>[read_file(path='a/b.py', count=3)]<|tool_call_end|><|im_end|>"
    action = chat.action(words.encode(text, add_special_tokens=False))
    assert action == {
        "text": "I look.",
        "tool_calls": [{"name": "read_file", "arguments": {"path": "a/b.py", "count": 3}}],
    }
    assert chat.action(words.encode("I look.<|im_end|>", add_special_tokens=False)) == {"text": "I look."}


def test_prompt_includes_the_system_message() -> None:
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
            "does not end turns with a special token",
        ),
    ],
)
def test_unusable_template_is_refused_in_one_line(template: str, reason: str) -> None:
    shipped = SHIPPED / f"{template}.jinja"
    words = tokenizer("qwen2.5", shipped.read_text("utf-8") if "{" not in template and template else template)
    with pytest.raises(ChatError, match=reason) as refused:
        TemplateChat(words, never_samples)
    assert "\n" not in str(refused.value)


def test_image_processor_is_refused() -> None:
    class Processor:
        image_processor = None
        chat_template = "x"

    with pytest.raises(ChatError, match="images"):
        TemplateChat(Processor(), never_samples)


def test_prompt_reports_why_the_template_refuses_messages() -> None:
    with pytest.raises(ChatError, match="alternate"):
        Writer("gemma3").chat.prompt([TASK, TASK], TOOLS)
