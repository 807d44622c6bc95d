"""Random Python programs whose names are bound to one another, and whose calls stand in calls."""

from __future__ import annotations

import random

NAMES = ("a", "b", "name", "item", "key")
_EXPRESSIONS = (
    *("{0}", "str({0})", "list({0})", "{0}.split()", "*{0},", "{0}.decode()", "reversed({0})", "''.join({0})"),
    *("''.join(reversed({0}))", "{0} + {1}", "{0} / {1}", "[{0}, {1}]", "[{0}, *{1}]", "({0}, {1})", "{0} or {1}"),
    *("f'{{{2}}}{{{3}}}'", "'{{}}{{}}'.format({0}, {1})", "'%s%s' % ({0}, {1})", "os.path.join({0}, {1})"),
    *("{0}.replace({1}, {0})", "{0}.strip({1})", "getattr({0}, {1})", "{0}[{1}]", "{0}({1})", "lambda: {0}"),
    *("{0} if {1} else {0}", "[{0} for {2} in {1}]", "{{{0}: {1}}}", "{0} == {1}", "not {0}", "{0}.{2}", "{0}[1:]"),
    *("codecs.decode({0}, {1})", "bytes([{0}])", "exec({0})", "eval({0})", "__import__({0})", "vars({0})", "chr({0})"),
)
_STATEMENTS = (
    *("{2} = {0}", "{2}, {3} = {0}", "{2}, {3} = {0}, {1}", "{2} += {0}", "{2}.{3} = {0}", "{2}[{0}] = {1}"),
    *("for {2}, {3} in {0}: {2} = {1}", "while {0}: {2}, {3} = {1}, {0}", "if {0}: return {1}", "merge({0}, {1})"),
    *("def merge({2}, {3}): return merge({0}, {1})", "subprocess.run({0})", "open({0}).read()", "os.listdir({0})"),
    *("with open({0}) as {2}: {2}.write({1})", "shlex.split({0})", "assert {0} == {1}", "return {0}", "yield {1}"),
)
MAX_EXPRESSION = 400


def random_program(chance: random.Random, statements: int = 25) -> str:
    """Return the statements of a function body; each is one line, and few of them make sense."""
    return "\n".join(_filled(chance.choice(_STATEMENTS), chance) for _ in range(chance.randint(1, statements)))


def nested_program(chance: random.Random, depth: int = 30) -> str:
    """Return a statement in which one or two kinds of expression stand in themselves."""
    kinds = [chance.choice(_EXPRESSIONS) for _ in range(chance.randint(1, 2))]
    text = chance.choice(("'a'", *NAMES))
    for _ in range(depth):
        kind = chance.choice(kinds)
        names = chance.choices(NAMES, k=3)
        inner = (text, names[0]) if chance.random() < 0.5 else (names[0], text)
        candidate = kind.format(*inner, names[1], names[2])
        if len(candidate) > 10 * MAX_EXPRESSION:
            break
        text = candidate
    return f"{chance.choice(NAMES)} = {text}\n" + _filled(chance.choice(_STATEMENTS), chance)


def _filled(pattern: str, chance: random.Random) -> str:
    return pattern.format(_expression(chance), _expression(chance), *chance.choices(NAMES, k=2))


def _expression(chance: random.Random) -> str:
    text = chance.choice(("'a'", "'/usr/lib'", "'git log'", "1", *NAMES, *NAMES))
    for _ in range(chance.choice((0, 1, 1, 2, 6))):
        other = chance.choice((text, *NAMES))
        candidate = chance.choice(_EXPRESSIONS).format(text, other, *chance.choices(NAMES, k=2))
        text = candidate if len(candidate) < MAX_EXPRESSION else text
    return text
