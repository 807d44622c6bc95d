"""New names: each word of an identifier gets a synonym, or an invented word, the same one wherever it occurs."""

from __future__ import annotations

import re
from collections.abc import Collection

from ....environments.rng import stream

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|_+")
_ONSETS = "b d f g k l m n p r s t v z br dr gl kr pl tr".split()
_VOWELS = "a e i o u".split()
_SYNONYMS = """
add:append amount:quantity arg:operand begin:opening build:assemble buffer:pad bytes:octets cache:store call:invoke
check:verify child:offspring class:kind clear:wipe close:shut code:script compare:match compute:calculate config:setup
convert:transform copy:duplicate count:tally create:make current:present data:payload date:day decode:unpack
default:fallback delete:erase depth:nesting detail:particular dict:mapping directory:folder display:show element:entry
encode:pack end:finish entry:record error:fault escape:quote event:signal exclude:omit expand:unfold expected:required
extra:additional factor:multiplier field:column file:document filter:select find:locate first:initial flag:marker
flatten:unnest format:render func:callback function:routine get:fetch group:cluster handle:treat handler:treater
head:front header:heading height:tallness hidden:concealed hook:trigger index:position info:facts initial:starting
inner:inside insert:place item:element iterable:series iterator:walker join:combine key:label keys:labels
kind:sort label:caption last:final left:west length:extent level:tier limit:bound line:row list:sequence load:read
lower:smaller main:principal make:produce map:transform match:hit max:most merge:blend message:notice method:procedure
min:least mode:manner module:part name:title names:titles new:fresh next:following node:vertex number:figure
obj:thing object:thing offset:shift old:former option:choice options:choices order:sequence output:result owner:holder
parent:ancestor parse:interpret parser:interpreter part:piece path:route pattern:template position:place prefix:opening
previous:prior print:show process:handle property:trait query:request queue:waitlist range:span raw:plain read:load
reader:loader record:entry remove:discard render:draw replace:substitute request:demand reset:clear result:outcome
reverse:backward right:east root:base row:line rule:law run:execute save:store scope:context search:seek sep:divider
separator:divider sequence:series serialize:flatten set:assign settings:preferences shape:form show:display size:extent
sort:arrange source:origin split:divide start:begin state:status step:stride stop:halt str:text string:text
strip:trim style:look suffix:ending table:grid tag:marker tail:back target:goal text:wording time:moment title:heading
token:symbol total:sum tree:hierarchy type:kind unit:measure update:refresh upper:larger user:person val:item
validate:check value:item values:items version:edition visit:tour walk:traverse width:breadth word:term wrap:enclose
wrapper:envelope write:store writer:recorder
"""
_TABLE = dict(pair.split(":") for pair in _SYNONYMS.split())


def new_name(name: str, used: Collection[str], seed: str) -> str:
    """Return another name of the same style that is not ``used``; it depends on the name, ``used`` and the seed.

    Digits and underscores stay, and words of two letters or less where the name has a longer one.
    """
    parts = _PARTS.findall(name)
    for attempt in range(100):
        salt = f"{seed} {attempt}" if attempt else seed
        candidate = "".join(_new_part(part, salt, invent=attempt > 0) for part in parts)
        if candidate != name and candidate not in used:
            return candidate
    raise AssertionError(f"a hundred invented names for {name} are used already")


def _new_part(part: str, seed: str, *, invent: bool) -> str:
    if not part.isalpha() or (len(part) < 3 and not invent):
        return part
    word = part.lower()
    other = invented(word, seed) if invent or word not in _TABLE else _TABLE[word]
    if part.isupper():
        return other.upper()
    return other.capitalize() if part[0].isupper() else other


def invented(word: str, seed: str) -> str:
    """Return a word of three syllables that has no meaning."""
    draw = stream(0, f"invented word {seed}", word)
    return "".join(draw.choice(_ONSETS) + draw.choice(_VOWELS) for _ in range(3))
