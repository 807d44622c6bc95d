"""The generator ``fd_cli_option``: an option of a command line is taken out with everything that it controls."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from .....errors import NotApplicable, Rejected
from .....models import GeneratorRef
from ....base import Candidate, Files, HiddenTests, StatementContext, TestPolicy
from ....python.tested_code import TestedCode, in_seed_order
from ....statements.behaviours import bullets, quoted
from ....statements.hidden_tests_text import closing_paragraphs
from ..removal.name_index import NameIndex
from ..removal.source_file import SourceFile
from .calls_of_tests import CallsOfTests, called_name
from .command_options import CommandOption, command_options, uses_elsewhere, without_option, without_use
from .rewriting.line_edits import deleted_lines, tidied

if TYPE_CHECKING:
    from .....environments.snapshots import Snapshot

MAX_EXAMPLES = 5
MAX_EXAMPLE = 120
_EXPECTING = {"raises", "assertRaises"}
_DETAILS = ("type", "choices", "nargs", "metavar", "action", "const", "multiple", "count")


@dataclass(frozen=True)
class Knobs:
    """Which options are deleted, and what the workspace shows of the tests."""

    documented: bool = True
    """Only options with a help text."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    keep_helpers: bool = False
    """Leave private helpers and imports that only the deleted code used, which makes the task easier."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may pass the option."""


@dataclass(frozen=True)
class OptionStatement:
    """What a command has to accept again."""

    module: str  # dotted name of the module
    path: str  # its file
    function: str  # the function that declares or receives the option; empty at module level
    library: str  # ``argparse``, ``click`` or ``getopt``
    usage: str  # how a user writes the option
    flags: Sequence[str]  # all its spellings
    name: str  # its attribute of the namespace, or its parameter
    default: str  # source of the value without the option; empty where code that is still there sets it
    help_text: str  # as the command prints it; empty when it has none
    details: Sequence[str]  # other settings of the declaration
    examples: Sequence[str]  # argument lists of tests
    policy: TestPolicy  # which failing tests the workspace lacks

    def render(self, context: StatementContext) -> str:
        """Return usage, help, default and settings of the option, examples, behaviours and the interface."""
        where = f" (`{self.function}`)" if self.function else ""
        paragraphs = [
            f"# Add the option `{self.flags[-1]}` to the command line of {context.package}",
            f"In this code base, the command line in `{self.path}`{where} refuses the option `{self.flags[-1]}`. "
            "Everything else works. Add the option and what it does; without it the command behaves as it does now.",
            f"```\nusage: ... [{self.usage}]\n```",
            bullets(
                [
                    f"spelled {' or '.join(f'`{flag}`' for flag in self.flags)}, declared with {self.library}"
                    + (f" as `{self.name}`" if self.default else ""),
                    *([f"default: `{self.default}`"] if self.default else []),
                    *self.details,
                ]
            ),
        ]
        if self.help_text:
            paragraphs.append(f"Its help text:\n\n{quoted(self.help_text)}")
        if self.examples:
            paragraphs.append(
                "## Calls\n\nTests pass arguments such as:\n\n" + bullets(f"`{x}`" for x in self.examples)
            )
        paragraphs += closing_paragraphs(context, self.policy, paragraphs)
        return "\n\n".join(paragraphs) + "\n"


class CommandOptionDeletion:
    """Delete one option of a command line with the code that it controls, and ask for it back.

    Options of argparse, click and getopt are eligible when tests pass them. Those of argparse and click need a constant
    as their value without the option.
    """

    name = "fd_cli_option"
    version = "2"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per option, in seed order. Raises NotApplicable for a package without such options."""
        code = TestedCode(snapshot)
        index = NameIndex.of(code.tree)
        options = [
            (index.files[path], item) for path in sorted(index.own) for item in command_options(index.files[path])
        ]
        if not options:
            problem = (
                "declares no option of a command line with argparse, click or getopt; take another source or generator"
            )
            raise NotApplicable(f"{snapshot.name} {snapshot.version} {problem}")
        calls = CallsOfTests(code.tree)
        eligible = list(_eligible(code, calls, options, knobs))
        pool = in_seed_order(
            eligible, seed, self.name, key=lambda item: (item[0].path, item[1].function, item[1].flags)
        )
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for file, option, tests in pool:
            try:
                yield _propose(code, calls, file, option, tests, reference, knobs)
            except Rejected:  # the option cannot be taken out exactly, so it is not eligible
                continue


def _eligible(
    code: TestedCode, calls: CallsOfTests, options: list[tuple[SourceFile, CommandOption]], knobs: Knobs
) -> Iterator[tuple[SourceFile, CommandOption, list[str]]]:
    """Yield the options that tests pass to the command."""
    index = NameIndex.of(code.tree)
    files = [index.files[path] for path in index.own]
    words = {test: {word for text in calls.strings(test) for word in _words(text)} for test in code.baseline.passed}
    for file, option in options:
        tests = [test for test in code.baseline.passed if words[test] & set(option.flags)]
        key = f"{file.path}::{option.function}"
        running = set(code.tests_of(file.path, key.__eq__)) & set(tests)
        tests = [test for test in tests if test in running] if running else tests  # a subprocess leaves no trace
        if knobs.documented and not option.help_text:
            continue
        if all(any(called_name(call) in _EXPECTING for call in calls.calls(test)) for test in tests):
            continue  # a test that expects the command to end does so without the option, too
        if code.decides(tests, knobs.max_share) and not uses_elsewhere(files, file, option):
            yield file, option, tests


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text that start with a dash, without values that are attached."""
    for word in text.split():
        if word.startswith("-"):
            yield word.partition("=")[0]


def _propose(
    code: TestedCode,
    calls: CallsOfTests,
    file: SourceFile,
    option: CommandOption,
    tests: list[str],
    reference: GeneratorRef,
    knobs: Knobs,
) -> Candidate:
    """Return the candidate. Raises Rejected when the option cannot be taken out exactly."""
    ignoring = without_use(file, option)
    after = without_option(file, ignoring, option)
    exercise = tidied(code.tree, file.path, after, keep_helpers=knobs.keep_helpers)
    others: Files = {path: code.tree.read(path) for path in exercise}
    return Candidate(
        entity=f"{file.path}::{option.function or 'main'}.{option.name}",
        generator=reference,
        exercise=exercise,
        hidden_tests=HiddenTests(tests, knobs.tests),
        statement=_statement(calls, file, option, tests, knobs),
        subject=option.flags[-1],
        documented=bool(option.help_text),
        probes={"ignored": {**others, file.path: ignoring}} if ignoring != file.source else {},
        features={"lines_deleted": sum(file.source.count(b"\n", *span) for span in deleted_lines(file.source, after))},
    )


def _statement(
    calls: CallsOfTests, file: SourceFile, option: CommandOption, tests: Sequence[str], knobs: Knobs
) -> OptionStatement:
    metavar = option.setting("metavar") or option.name.upper()
    longest = max(option.flags, key=len)
    settings = dict(option.settings)
    return OptionStatement(
        module=file.dotted,
        path=file.path,
        function=option.function,
        library=option.library,
        usage=f"{longest} {metavar}" if option.takes_value else longest,
        flags=sorted(option.flags, key=len),
        name=option.name,
        default=option.default,
        help_text=option.help_text,
        details=[f"{key}: `{settings[key]}`" for key in _DETAILS if key in settings],
        examples=_examples(calls, tests, option),
        policy=knobs.tests,
    )


def _examples(calls: CallsOfTests, tests: Sequence[str], option: CommandOption) -> list[str]:
    """Return argument lists and commands of tests that hold the option, each once; long ones are left out."""
    texts: dict[str, None] = {}
    for test in tests:
        for item in calls.expressions(test):
            parts = item.elts if isinstance(item, ast.List | ast.Tuple) else [item]
            strings = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            is_command = isinstance(item, ast.List | ast.Tuple) or (len(strings) == 1 and " " in strings[0])
            if is_command and any(word in option.flags for text in strings for word in _words(text)):
                texts[ast.unparse(item)] = None
    return [text for text in texts if len(text) <= MAX_EXAMPLE and "`" not in text][:MAX_EXAMPLES]
