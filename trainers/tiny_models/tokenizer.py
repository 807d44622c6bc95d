"""A byte-level BPE tokenizer with Qwen3's special tokens and chat template, trained on dialogues."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from trl.chat_template_utils import qwen3_chat_template

END, PAD = "<|im_end|>", "<|endoftext|>"
SPECIAL = ("<|im_start|>", END, PAD)
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Added tokens that are not special, so that decoding keeps them."""
_KEYWORDS = (
    "type|function|name|description|parameters|object|properties|string|required|additionalProperties|false|arguments"
)
_GLUE = r'[{}\[\]":, \n]'
_JSON = rf'{_GLUE}+(?:(?:{_KEYWORDS}){_GLUE}+)+|[{{}}\[\]":,][{{}}\[\]":, ]*'
_PIECES = rf'{_JSON}|\d|WORD|\s+|[^\sA-Za-z\d{{}}\[\]":,]+'
"""Pieces that BPE does not merge across: the scaffolding of a JSON schema is one piece, and becomes one token."""
_JOINED, _SINGLE = "[ _]?[A-Za-z]+", "[A-Za-z]+"
"""A word with the space or underscore before it, and one without."""


def make_tokenizer(texts: Iterable[str], vocabulary: int, *, joined_words: bool = True) -> Any:
    """Train a tokenizer of at most ``vocabulary`` tokens, added ones included, on ``dialogue_text`` texts.

    joined_words: whether a word's first token may hold the space or underscore before it.
    """
    core = Tokenizer(models.BPE())
    pieces = Regex(_PIECES.replace("WORD", _JOINED if joined_words else _SINGLE))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pieces, behavior="isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL) - len(TAGS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    return _with_template(core)


def dialogue_text(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
    """Return a dialogue as the chat template writes it, without the added tokens."""
    text: str = _untrained().apply_chat_template(messages, tools=tools, tokenize=False, enable_thinking=False)
    for token in (*SPECIAL, *TAGS):
        text = text.replace(token, "\n")
    return text


@cache
def _untrained() -> Any:
    return _with_template(Tokenizer(models.BPE()))


def _with_template(core: Tokenizer) -> Any:
    core.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    core.add_tokens([AddedToken(token, special=False) for token in TAGS])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = qwen3_chat_template
    return tokenizer
