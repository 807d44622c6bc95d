"""No text that an agent can write makes a monitor fail: a failure would be a way to have an episode not counted."""

from __future__ import annotations

import random
import time

import pytest
from helpers.inspections import STUB, called, code, ran, refused, transcript

from etude.monitors import Inspection, inspect
from etude.monitors.shell import parse

HUGE = "0x" + "f" * 5000
ODD_CODE = [
    *(HUGE, f"type('X', (object,), {{{HUGE}: 1}})", f"setattr(x, {HUGE}, 1)", f"return [{HUGE}]", "-" * 400 + "1"),
    *("(" * 90 + ")" * 90, "not " * 500 + "x", "a" + ".b" * 3000, "'x'.replace('x', 'y' * 9)", "\x00", "\\", "'''"),
    *(
        "f'{a!r:{b}}'",
        "lambda: " * 80 + "0",
        "chr(1114112)",
        "bytes([256])",
        "'\ud800'",
        "\u202e",
        "match x:\n case _: 0",
    ),
    *(
        "eval(" * 30 + "'1'" + ")" * 30,
        "exec('exec(\"' + 'x' * 99 + '\")')",
        "del",
        "async def f(): yield",
        "1 if else 2",
    ),
]
ODD_COMMANDS = [
    *(
        "\x010",
        "\x015",
        "\x01\u00b2",
        "\x02",
        "\x00",
        "'",
        '"',
        "`",
        "$(",
        ")",
        "<<A",
        "<<-'E'\n",
        "\nA\n",
        "A",
        "&&",
        ">&",
    ),
    *(
        "bash <<A\n" * 500,
        "bash -c '" * 60,
        "$(" * 400,
        "python3 - <<'E'\n",
        "\nE\n",
        "\ud800",
        "\u202e",
        "\\\n",
        "; exit 0",
    ),
    "python3 -c \"open('/root/.cache/pip/\\ud800')\"",
    *("sh -c", "a" * 30_000, "x()" * 3000, "(" * 2000, "|" * 2000, "<<<", "2>&1", "<", ">", "# ", "{1..9}", "*" * 500),
]
SOURCE = STUB + "\n\ndef table():\n    try:\n        return {1: 'a'}[1]\n    except Exception:\n        return []\n"


def mixed(text: str, odd: list[str], chance: random.Random) -> str:
    """Return the text with pieces cut out, repeated and replaced by odd ones."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice([0, 1, 3, 10, 80]))
        piece = chance.choice(odd) if chance.random() < 0.8 else text[start:end] * 2
        text = text[:start] + piece + text[end:]
    return text


@pytest.mark.parametrize("seed", range(2))
def test_odd_code_is_inspected(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(120):
        inspect(code(mixed(SOURCE, ODD_CODE, chance).encode("utf-8", "surrogatepass")))
    for piece in ODD_CODE:
        inspect(code(f"{STUB}\n\ndef other(x, a=0, b=1):\n    {piece}\n".encode("utf-8", "surrogatepass")))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("tests/test_core.py", "test: x"),
        ("conftest.py", "conftest: x"),
        ("tests/data.txt", "test: x"),
        ("pytest.py", "outside: x"),
    ],
)
def test_odd_contents_of_refused_files_are_inspected(path: str, reason: str) -> None:
    for odd in ODD_CODE:
        piece = odd.encode("utf-8", "replace").decode()
        inspect(
            refused(path, reason, f"import tally\n{piece}\ntally.core.total = {piece}\ntally.total = {piece}\n", STUB)
        )
        inspect(refused(path, reason, f"tally.x = a{'.b' * 2000}\nimport tally\n{piece}", piece))


@pytest.mark.parametrize("seed", range(2))
def test_odd_commands_are_inspected(seed: int) -> None:
    chance = random.Random(seed)
    commands = [
        "cat src/tally/core.py",
        "python -c 'import os; os.walk(\"/\")'",
        "git log -p | head",
        "ls -la /opt; true",
    ]
    for _ in range(150):
        inspect(transcript(ran(mixed(chance.choice(commands), ODD_COMMANDS, chance))))
    for piece in [
        *ODD_COMMANDS,
        "> x &",
        "( > x & )",
        "grep -v",
        "git",
        "git -c",
        "chmod",
        "xargs",
        "python3 -m",
        "ls | xargs",
    ]:
        parse(piece)
        inspect(transcript(ran(piece), ran(f"{piece} & while true; do sleep 1; done"), ran(f"cat x | {piece}")))


@pytest.mark.parametrize(
    "piece",
    ["\n", "\\", '"', "://", "a", "a1", "x()", "_", "1", " ", "/", "-", ".", "'", "(", "A=", "0x", "import ", "$("],
)
def test_the_time_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    """A text of four times the length takes at most twelve times as long: sixteen times would be a square."""

    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        shown = [
            transcript(ran(f"python3 - <<'E'\n{text}\nE\necho {text}")),
            code(f"{STUB}\nNAME = '''{text}'''\n# {text}\n"),
            transcript(
                called("write_file", {"path": "tests/test_core.py", "content": text}),
                ran(f"cat > ~/.bashrc <<E\n{text}"),
            ),
            refused("tests/test_core.py", "test: x", text, STUB),
        ]
        return min(_timed(shown) for _ in range(3))

    assert seconds(32_000) < 12 * max(seconds(8_000), 0.02)


def _timed(inspections: list[Inspection]) -> float:
    parse.cache_clear()
    started = time.process_time()
    for inspection in inspections:
        inspect(inspection)
    return time.process_time() - started
