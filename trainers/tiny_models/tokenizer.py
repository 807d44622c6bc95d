"""A byte-level BPE tokenizer with Qwen3's marks and chat template, trained on dialogues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from trl.chat_template_utils import qwen3_chat_template

END, PAD = "<|im_end|>", "<|endoftext|>"
SPECIAL = ("<|im_start|>", END, PAD)
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Not special, so that decoding keeps them."""
_KEYWORDS = (
    "type|function|name|description|parameters|object|properties|string|required|additionalProperties|false|arguments"
)
_GLUE = r'[{}\[\]":, \n]'
_JSON = rf'{_GLUE}+(?:(?:{_KEYWORDS}){_GLUE}+)+|[{{}}\[\]":,][{{}}\[\]":, ]*'
_PIECES = Regex(rf'{_JSON}|\d|[ _]?[A-Za-z]+|\s+|[^\sA-Za-z\d{{}}\[\]":,]+')
"""The scaffolding of a JSON schema is one piece and becomes one token; words and digits are their own."""


def make_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A tokenizer of at most ``vocabulary`` tokens, marks included. ``texts`` are ``text_of`` dialogues."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(_PIECES, behavior="isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL) - len(MARKS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    return _dressed(core)


def text_of(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
    """A dialogue as the chat template writes it, less the marks, which are tokens already."""
    text: str = _bare().apply_chat_template(messages, tools=tools, tokenize=False, enable_thinking=False)
    for mark in (*SPECIAL, *MARKS):
        text = text.replace(mark, "\n")
    return text


_BARE: list[Any] = []


def _bare() -> Any:
    if not _BARE:
        _BARE.append(_dressed(Tokenizer(models.BPE())))
    return _BARE[0]


def _dressed(core: Tokenizer) -> Any:
    core.add_special_tokens([AddedToken(mark, special=True) for mark in SPECIAL])
    core.add_tokens([AddedToken(mark, special=False) for mark in MARKS])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=PAD)
    made.chat_template = qwen3_chat_template
    return made
