"""Plausible new names, drawn from a small vocabulary."""

from __future__ import annotations

import random
import re
from collections.abc import Collection

_VERBS = """
add:append,include apply:perform build:make,assemble calc:calculate calculate:compute change:alter check:verify
clean:tidy clear:reset collect:gather combine:merge compare:match compute:calculate configure:setup connect:attach
convert:translate,transform count:tally create:make,build decode:decipher delete:remove detect:recognize
difference:diff discard:remove display:show divide:split drop:discard dump:serialize,export emit:send encode:encipher
escape:quote evaluate:compute execute:run expand:unfold export:dump extract:pull fetch:get,retrieve fill:populate
filter:select,keep find:locate,search first:head flatten:unnest format:render from:of generate:produce,make
get:fetch,lookup group:cluster guess:infer handle:process has:contains import:ingest insert:place interleave:mix
is:check iterate:walk iter:iterate join:combine last:tail list:enumerate load:read locate:find lookup:find make:build
map:transform match:compare merge:combine,join normalize:canonicalize open:access parse:read,interpret partition:divide
pick:select print:show process:handle pull:extract push:append put:place,store quote:escape read:load,parse
receive:accept reduce:fold register:enroll,record remove:discard,drop rename:relabel render:format replace:substitute
reset:clear resolve:lookup return:give run:execute sanitize:clean save:store,write search:find select:pick,choose
send:emit serialize:dump set:assign show:display sign:seal sort:order split:divide,break start:begin stop:end
store:save strip:trim subscribe:attach take:grab to:as,into transform:convert translate:convert trim:strip
truncate:shorten unescape:unquote unsign:unseal update:refresh,revise validate:check,verify verify:check walk:traverse
wrap:enclose write:save
"""
_NOUNS = """
Builder:Maker Cache:Store Client:Caller Collection:Group Config:Settings Container:Holder Context:Scope Counter:Tally
Decoder:Unpacker Dict:Mapping Encoder:Packer Entry:Record Error:Failure Exception:Error Exporter:Writer Factory:Maker
Field:Column File:Document Formatter:Renderer Group:Cluster Handler:Processor Importer:Reader Info:Details
Item:Element Iterator:Walker Line:Row List:Sequence Loader:Reader Manager:Controller Map:Mapping Match:Hit
Mixin:Extension Node:Vertex Options:Settings Parser:Interpreter Path:Route Plugin:Extension Printer:Writer
Processor:Handler Queue:Line Reader:Loader Record:Entry Registry:Catalogue Renderer:Formatter Resolver:Locator
Result:Outcome Rule:Law Serializer:Writer Set:Collection Settings:Options Signer:Sealer State:Status Style:Look
Table:Grid Token:Symbol Tree:Hierarchy Validator:Checker Value:Item Visitor:Walker Walker:Traverser Warning:Notice
Writer:Printer
"""


def _table(text: str) -> dict[str, list[str]]:
    pairs = (item.partition(":") for item in text.split())
    return {word: others.split(",") for word, _, others in pairs}


_VERB_TABLE, _NOUN_TABLE = _table(_VERBS), _table(_NOUNS)
_PREFIXES = ("apply", "compute", "do", "run", "make")
_CLASS_PREFIXES = ("Basic", "Standard", "General", "Common")


def new_name(name: str, used_names: Collection[str], draw: random.Random) -> str:
    """Return another name of the same style that is not ``used_names``, '' when the vocabulary has none."""
    names = _class_names(name) if name[0].isupper() else _function_names(name)
    preferred, others = ([item for item in group if item not in used_names and item != name] for group in names)
    pool = preferred or others
    return draw.choice(pool) if pool else ""


def _function_names(name: str) -> tuple[list[str], list[str]]:
    """Return names with another verb in place of one of the words, and names with a verb before them."""
    parts = name.split("_")
    renamed = [
        "_".join([*parts[:number], other, *parts[number + 1 :]])
        for number, part in enumerate(parts)
        for other in _VERB_TABLE.get(part, [])
        if number == 0 or part not in ("to", "from", "is", "as")
    ]
    return renamed, [f"{prefix}_{name}" for prefix in _PREFIXES]


def _class_names(name: str) -> tuple[list[str], list[str]]:
    """Return names with another noun at the end, and names with an adjective before them."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z\d]+|[A-Z]+|_", name)
    renamed = ["".join([*parts[:-1], other]) for other in _NOUN_TABLE.get(parts[-1], [])] if parts else []
    return renamed, [prefix + name for prefix in _CLASS_PREFIXES]
