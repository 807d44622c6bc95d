"""The generator ``fd_cli_option``: options that tests pass, in argparse, click and getopt."""

from __future__ import annotations

import ast
import textwrap
from types import SimpleNamespace

import pytest
from helpers.light_checks import LIGHT

from etude.errors import NotApplicable
from etude.generators import GENERATORS
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.models import Task

PARSED = """
    import argparse
    import json

    def main(argv=None):
        parser = argparse.ArgumentParser()
        parser.add_argument("words", nargs="*")
        parser.add_argument("-u", "--upper", action="store_true", help="write capitals")
        parser.add_argument(
            "--sep", dest="separator", default=" ", metavar="TEXT", help="put TEXT between words"
        )
        # For programs.
        parser.add_argument("--format", choices=["text", "json"], default="text", help="the format")
        parser.add_argument("--quiet", action="store_true")
        parser.add_argument("--set", default="a", help="replace it")
        parser.add_argument("--size", type=int, default="3", help="a size")
        args = parser.parse_args(argv)
        if args.set == "b":
            args.set = "c"
        if args.upper:
            args.words = [word.upper() for word in args.words]
        text = args.separator.join(args.words)
        if args.format == "json":
            return json.dumps(text)
        elif args.quiet:
            return ""
        return text
"""
CLICKED = '''
    import click

    @click.command()
    @click.argument("name")
    @click.option("--loud/--soft", default=False, help="Shout.")
    @click.option("-n", "--times", "count", type=int, default=1, help="How often.")
    @click.option("--file", type=click.File(), help="A file.")
    def greet(name, loud, count, file):
        """Greet."""
        if loud:
            name = name.upper()
        for _ in range(count):
            click.echo(name)
'''
GETOPT = '''
    import getopt
    import sys

    USAGE = """Usage: show [options]

      -h, --help             this text
      -w N, --width N        the width
                             of a line
      -r, --raw              no markup
    """

    def show():
        opts, args = getopt.getopt(sys.argv[1:], "hrw:", ["help", "raw", "width="])
        width = 80
        for opt, value in opts:
            if opt in ("-h", "--help"):
                print(USAGE)
            elif opt in ["-w", "--width"]:
                width = int(value)
            elif opt == "--raw":
                print("raw")
        print(width, args)
'''
TESTS = """
    from pkg.command import main

    def test_upper():
        assert main(["-u", "a"]) == "A"

    def test_separator():
        assert main(["a", "b", "--sep=-"]) == "a-b"

    def test_format():
        assert main(["--format", "json", "a"]) == '"a"'

    def test_quiet():
        assert main(["--quiet", "a"]) == ""

    def test_others():
        main("a --set b --size 4".split())

    def test_plain():
        assert main(["a"]) == "a"

    def test_loud(run):
        assert run("Ann --loud") == "ANN"

    def test_width(run):
        assert run(["show", "--width", "4"]) == "4 []"

    def test_times(run):
        assert run(["Ann", "-n", "2"]) == "Ann Ann"
"""
IDS = [
    f"tests/test_command.py::test_{name}"
    for name in "upper separator format quiet others plain loud times width".split()
]


@pytest.fixture
def commands(project):
    files = {
        "pkg/__init__.py": "",
        "pkg/command.py": PARSED,
        "pkg/greet.py": CLICKED,
        "pkg/show.py": GETOPT,
        "tests/test_command.py": TESTS,
    }
    snapshot = project(files, {"pkg/command.py::main": IDS[:6]}, passed=IDS)
    return SimpleNamespace(**vars(snapshot), name="pkg", version="1.0")


def candidates(snapshot, seed=0, **knobs):
    maker = GENERATORS.load("fd_cli_option")()
    return list(maker.candidates(snapshot, seed, parse_knobs(maker.knobs, knobs)))


def one(snapshot, name, **knobs):
    return next(item for item in candidates(snapshot, **knobs) if item.entity.endswith(f"::{name}"))


def names(items):
    return {item.entity.partition("::")[2] for item in items}


def statement(candidate):
    return candidate.statement.render(StatementContext("pkg 1.0", candidate.hidden_tests.affected, []))


def test_options_are_proposed_when_tests_pass_them_and_their_default_is_a_constant(commands):
    expected = {"main.upper", "main.separator", "main.format", "greet.loud", "greet.count", "show.width"}
    assert names(candidates(commands)) == expected  # --set is written to, --size has a text for a number
    assert names(candidates(commands, documented=False)) == expected | {"main.quiet"}


def test_the_order_depends_on_the_seed_alone(commands):
    orders = [tuple(item.entity for item in candidates(commands, seed)) for seed in (0, 0, 1, 2)]
    assert orders[0] == orders[1] and len(set(orders)) > 1


def test_an_option_of_argparse_goes_with_its_branch_and_its_imports(commands):
    candidate = one(commands, "main.format")
    after = candidate.exercise["pkg/command.py"].decode()
    assert "format" not in after and "json" not in after and "For programs" not in after
    assert '    if args.quiet:\n        return ""\n    return text\n' in after
    assert candidate.hidden_tests.affected == [IDS[2]]
    ast.parse(after)


def test_the_value_of_an_option_becomes_its_default(commands):
    after = one(commands, "main.separator").exercise["pkg/command.py"].decode()
    assert '" ".join(args.words)' in after and "--sep" not in after


def test_an_option_of_click_goes_with_its_parameter(commands):
    after = one(commands, "greet.loud").exercise["pkg/greet.py"].decode()
    assert "def greet(name, count, file):" in after and "loud" not in after and "upper" not in after
    assert "range(1)" in one(commands, "greet.count").exercise["pkg/greet.py"].decode()


def test_an_option_of_getopt_goes_with_its_branch_and_its_usage(commands):
    candidate = one(commands, "show.width")
    after = candidate.exercise["pkg/show.py"].decode()
    assert '"hr", ["help", "raw"])' in after and "the width" not in after and "of a line" not in after
    assert '            print(USAGE)\n        elif opt == "--raw":' in after
    text = statement(candidate)
    assert "> -w N, --width N        the width" in text and "usage: ... [--width WIDTH]" in text
    assert "default" not in text and "int(value)" not in text
    probe = candidate.probes["ignored"]["pkg/show.py"].decode()
    assert '"width="' in probe and "int(value)" not in probe


def test_the_trivial_solution_accepts_the_option_and_ignores_it(commands):
    probe = one(commands, "main.upper").probes["ignored"]["pkg/command.py"].decode()
    assert '"--upper"' in probe and "word.upper()" not in probe


def test_the_statement_gives_usage_help_default_and_calls(commands):
    text = statement(one(commands, "main.separator"))
    for part in (
        "# Add the option `--sep` to the command line of pkg 1.0",
        "usage: ... [--sep TEXT]",
        "declared with argparse as `separator`",
        'default: `" "`',
        'metavar: `"TEXT"`',
        "> put TEXT between words",
        "`['a', 'b', '--sep=-']`",
        "- separator",
    ):
        assert part in text
    assert "join" not in text
    assert "usage: ... [--upper]" in statement(one(commands, "main.upper"))
    assert 'choices: `["text", "json"]`' in statement(one(commands, "main.format"))
    assert "`--loud` or `--soft`" in statement(one(commands, "greet.loud"))


def test_a_package_without_a_command_line_is_refused_with_a_reason(project):
    snapshot = SimpleNamespace(**vars(project({"pkg/__init__.py": "x = 1\n"}, {})), name="pkg", version="1.0")
    with pytest.raises(
        NotApplicable, match=r"pkg 1\.0 declares no option of a command line with argparse, click or getopt"
    ):
        candidates(snapshot)


def test_an_option_of_a_package_becomes_a_task(tmp_path):
    tests = "\n\n".join(part for part in textwrap.dedent(TESTS).strip().split("\n\n") if "run" not in part)
    files = {
        "pyproject.toml": '[project]\nname = "wordy"\nversion = "1.0"\n[tool.setuptools]\npackages = ["pkg"]\n',
        "pkg/__init__.py": "",
        "pkg/command.py": textwrap.dedent(PARSED),
        "tests/test_command.py": tests + "\n",
    }
    for path, text in files.items():
        (tmp_path / "wordy" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "wordy" / path).write_text(text)
    out = tmp_path / "out"
    source = str(tmp_path / "wordy")
    report = generate([source], generators=["fd_cli_option"], count=1, seed=1, out=out, any_licence=True, knobs=LIGHT)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((out / "tasks.jsonl").read_text())
    assert task.FAIL_TO_PASS and "the option `--" in task.problem_statement
