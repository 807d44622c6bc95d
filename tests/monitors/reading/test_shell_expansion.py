"""Variables, loops, decoded text and nested commands of a command line."""

from __future__ import annotations

import pytest

from etude.monitors.reading.python_scripts import script
from etude.monitors.reading.shell import parse


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("g=git; $g log --all", "git log --all"),
        ('x=tests; rm -rf "$x"', "rm -rf tests"),
        ("export D=.git && ls ${D}/objects", "ls .git/objects"),
        ("for f in a.py b.py; do rm $f; done", "do rm a.py b.py"),
        ("for p in 80 81; do curl http://h:$p/x; done", "do curl http://h:80/x"),
        ("echo cm0gLXJmIHRlc3Rz | base64 -d | sh", "rm -rf tests"),
        ("eval 'git reflog'", "git reflog"),
        ("find tests -name 'test_*.py' -exec sed -i s/a/b/ {} +", "sed -i s/a/b/ tests/test_*.py"),
    ],
)
def test_what_a_line_runs_is_found(line: str, expected: str) -> None:
    assert expected in [command.text for command in parse(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x=$(pwd); rm $x", "rm $x"),
        ("echo $HOME", "echo $HOME"),
        ("find . -name '*.pyc' -delete", "find . -name *.pyc -delete"),
        ("echo '%%%' | base64 -d", "base64 -d"),
    ],
)
def test_what_is_not_known_stays_as_it_is(line: str, expected: str) -> None:
    assert expected in [command.text for command in parse(line)]


def test_ends_of_lines_inside_quotes_stay_in_the_script() -> None:
    (command, *_) = parse("python3 -c \"import os\nfor p in os.listdir('/proc'):\n    print(p)\"\necho done")
    one = script(command.python[0])
    assert one is not None and one.paths == ("/proc",)


def test_lines_end_commands() -> None:
    line = "cd src\n\n\n\nls &\n> notes.txt\n(true)\n"
    commands = parse(line)
    assert [command.text for command in commands] == ["cd src", "ls", "", "true"]
    assert commands[1].background and commands[2].redirected == ("notes.txt",)


def test_a_variable_cannot_make_a_line_long() -> None:
    line = "a=" + "x" * 300 + "; " + "b=$a$a; " * 50 + "echo " + "$a" * 20_000
    assert sum(len(command.text) for command in parse(line)) < 300_000
