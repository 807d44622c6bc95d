"""Small tokenizers, each with the marks and the chat template of a family of models; nothing is downloaded."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trl
from helpers.paths import DATA
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

HERE = DATA / "templates"
SHIPPED = Path(trl.__file__).parent / "chat_templates"
_TEXT = [
    '</tool_response> ```tool_output ok.\n```\nok}\n exit 1\n] said:\n\n. call_id"}',
    "You may call one or more functions to assist with the user query. Go on. yes no found it done ok",
    '{"type": "function", "function": {"name": "look_up", "arguments": {"query": "yes", "path": "a/b.py"}}}',
    "error tool_not_found: there is no tool 'x'; did you mean y?\nexit 1\nassistant\nuser\nsystem\nname parameters",
    "Reminder: the tools are these, the ledger of the cellar is read by id. Submit the answer that this gives you.",
]
_DEEPSEEK = [
    f"<｜{name}｜>"
    for name in (
        "User",
        "Assistant",
        "tool▁calls▁begin",
        "tool▁call▁begin",
        "tool▁sep",
        "tool▁call▁end",
        "tool▁calls▁end",
    )
    + ("tool▁outputs▁begin", "tool▁output▁begin", "tool▁output▁end", "tool▁outputs▁end")
]


@dataclass(frozen=True)
class Family:
    """``own``: after which messages a hint gets one of its own. ``same``: the template writes old turns as new ones;
    with ``calls`` only in dialogues where every turn has a call. ``several``: it writes several calls in a turn.
    ``thought``: what a thinking model begins a turn with. ``joins``: its tokens may hold letters and what is beside."""

    template: Path
    eos: str
    bos: str | None
    special: list[str]
    added: list[str] = field(default_factory=list)
    arguments: dict[str, Any] = field(default_factory=dict)
    own: str = "prompt tool user"
    same: str = "all"
    several: bool = True
    thought: str = ""
    joins: bool = False


_THOUGHT = "<think>\nHm.\n</think>\n\n"
_QWEN: dict[str, Any] = {
    "eos": "<|im_end|>",
    "bos": None,
    "special": ["<|im_start|>", "<|endoftext|>"],
    "added": ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"],
}
_LLAMA: dict[str, Any] = {
    "eos": "<|eot_id|>",
    "bos": "<|begin_of_text|>",
    "special": ["<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|python_tag|>"],
    "arguments": {"date_string": "26 Jul 2024"},
    "several": False,
}
_MISTRAL: dict[str, Any] = {
    "joins": True,
    "eos": "</s>",
    "bos": "<s>",
    "special": [
        f"[{name}]"
        for name in ("INST", "/INST", "AVAILABLE_TOOLS", "/AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS")
        + ("/TOOL_RESULTS", "TOOL_CONTENT", "ARGS", "SYSTEM_PROMPT", "/SYSTEM_PROMPT")
    ],
}
_SEEK: dict[str, Any] = {
    "eos": "<｜end▁of▁sentence｜>",
    "bos": "<｜begin▁of▁sentence｜>",
    "special": [],
    "added": [*_DEEPSEEK, "<think>", "</think>"],
}
_PHI: dict[str, Any] = {
    "eos": "<|endoftext|>",
    "bos": None,
    "special": ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|/tool|>"],
    "added": ["<|tool_call|>", "<|/tool_call|>", "<|tool_response|>"],
}
_GEMMA: dict[str, Any] = {
    "joins": True,
    "eos": "<end_of_turn>",
    "bos": "<bos>",
    "special": ["<start_of_turn>", "<eos>"],
}
_GEMMA4: dict[str, Any] = {
    "joins": True,
    "eos": "<turn|>",
    "bos": "<bos>",
    "special": ["<|turn>", "<eos>", "<|tool>", "<tool|>", "<|think|>"]
    + ["<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|channel>", "<channel|>", '<|"|>'],
}
FAMILIES: dict[str, Family] = {
    "qwen2.5": Family(SHIPPED / "qwen2_5.jinja", **_QWEN),
    "qwen3": Family(SHIPPED / "qwen3.jinja", **_QWEN, same="", thought=_THOUGHT),
    "qwen3-training": Family(SHIPPED / "qwen3_training.jinja", **_QWEN, thought="<think>\n\n</think>\n\n"),
    "qwen3-no-thinking": Family(SHIPPED / "qwen3.jinja", **_QWEN, same="", arguments={"enable_thinking": False}),
    "qwen3-2507": Family(SHIPPED / "qwen3_instruct_2507.jinja", **_QWEN),
    "qwen3.5": Family(SHIPPED / "qwen3_5_think.jinja", **_QWEN, same="", thought="Hm.\n</think>\n\n"),
    "llama3.1": Family(SHIPPED / "llama3_1.jinja", **_LLAMA),
    "llama3.2": Family(SHIPPED / "llama3_2.jinja", **_LLAMA),
    "mistral-v3": Family(HERE / "mistral_v3.jinja", **_MISTRAL, own="", same="calls"),
    "mistral-v13": Family(HERE / "mistral_v13.jinja", **_MISTRAL),
    "deepseek-v3": Family(HERE / "deepseek_v3.jinja", **_SEEK),
    "deepseek-r1": Family(HERE / "deepseek_r1.jinja", **_SEEK, same="", thought="Hm.\n</think>\n\n"),
    "phi4": Family(HERE / "phi4.jinja", **_PHI),
    "gemma3": Family(HERE / "gemma3_tools.jinja", **_GEMMA, own=""),
    "gemma4": Family(SHIPPED / "gemma4_v5.jinja", **_GEMMA4),
}


@functools.cache
def _trained(joins: bool) -> str:
    """A byte-level BPE of a few hundred tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not joins)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        _TEXT * 8, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    )
    return str(tokenizer.to_str())


def tokenizer(name: str, template: str | None = None) -> Any:
    """A family's tokenizer, with its own template unless another is given; '' takes the template away."""
    family = FAMILIES[name]
    core = Tokenizer.from_str(_trained(family.joins))
    core.add_special_tokens([AddedToken(mark, special=True) for mark in family.special])
    core.add_tokens([AddedToken(mark, special=False) for mark in family.added])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=family.eos, bos_token=family.bos)
    made.chat_template = family.template.read_text("utf-8") if template is None else template or None
    return made
