"""The last words of programs that failed: what only compilers, package managers and interpreters say."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ANYWHERE = re.compile(
    r"(?:g?make|gmake)(?:\[\d+\])?: \*\*\* |npm (?:ERR!|error)(?: |$)|(?:yarn )?error Command "
    r"|\s*ELIFECYCLE |\s?ERR_PNPM_|error: could not compile|error: aborting due to|Exception in thread \"|panic: "
    r"|thread '[^']*' (?:\(\d+\) )?panicked at|fatal error: |collect2: error|compilation terminated|BUILD FAILED"
    r"|FAILURE: Build failed|\[ERROR\] .*BUILD FAILURE|\[INFO\] BUILD FAILURE|ninja: build stopped|error\[E\d{4}\]: "
    r"|Automatic merge failed|An error occurred \(\w+\) when calling|Error from server"
    r"|(?:\w+: )?Error response from daemon"
    r"|Node\.js v\d|\s+\+ FullyQualifiedErrorId|(?:PHP )?Fatal error: |terminate called after throwing"
    r"|[\w./+-]+:\d+:\d+: (?:fatal )?error: |runtime error: .*|SQLSTATE\[|\s+SQLSTATE\[|CMake Error\b|[│|] Error: "
    r"|\w+ aborted!|Execution halted"
    r"|\[ERROR\] Failed to execute goal|subprocess-exited-with-error|error: subprocess|Build FAILED\.",
)
"""Lines near the end, at their beginning: no program prints them and goes on to succeed."""

_LAST = re.compile(
    r"(?:[\w./@+-]+(?::[\w./-]+)*(?:\[\d+\])?: )?(?:(?:\w+ )?(?:fatal|error|Error|ERROR|FATAL|Fatal|E|panic|FAILED"
    r"|Failure|ERR)"
    r"(?:\[\w+\]|\(\w+\)| \d+(?: \(\w+\))?(?: at line \d+)?)?!?:(?! *\d+\Z)(?=\s|$)(?!\w+:))"
    r"|[\w./-]+:\d+(?::\d+)?:?(?: in [^:]*:)? (?:fatal )?error:? |\d+ errors?(?: generated\.?)?\Z"
    r"|[\w./-]+:\d+:in [`'].*\(\w+\)\Z"
    r"|.* at \S+ line \d+\.\Z|[\w.]+(?:Error|Exception)\b(?:: |\Z)|(?:.*: line \d+: +\d+ )?(?:Segmentation fault"
    r"|Aborted|Bus error"
    r"|Illegal instruction|Floating point exception|Killed|Trace/breakpoint trap)\b.*|exit status [1-9]\d*\Z"
    r"|(?:Failed to|Unable to|Could not|Cannot|Can't|Couldn't) |Permission denied|Host key verification failed"
    r"|(?:/\S+/)?python[\d.]*: (?:No module named|can't open file|Error while|can't find)"
    r"|.*\bNo module named\b.{0,60}\Z"
    r"|(?:Job|Unit) for \S+ failed|Unit \S+ (?:not found|could not be found)|The (?:system|specified"
    r"|connection) .*(?:cannot|refused)"
    r"|.{0,80}: (?:No such file or directory|Permission denied|command not found|Operation not permitted|Is a directory"
    r"|Connection refused|Not a directory|No space left on device|not found|Device or resource busy)\.?\Z"
    r"| ! \[rejected\]|sudo: .{1,60}(?:required|not found|not allowed)|CONFLICT \(|!? ?\[remote rejected\]|psql: "
    r"|.*\b(?:installation|build|compilation"
    r"|deployment) failed\.?\Z",
)
"""What the last line of the output begins with when a program failed."""

_LOGGED = re.compile(r"(?:ERROR|FATAL):[\w.]+:|\w+ (?:passed|failed)\b")
_ADVICE = re.compile(
    r"(?:See\b|Try\b|Run\b|Use\b|Usage|usage|For more|Please|and the|hint|note:|Note:|help:|Hint|\s|\^|~+"
    r"|\[notice\]|\[hint\]|Did you mean"
    r"|A complete log|npm notice|Node\.js v|exit status \d|If you |You can|More info|To |\|| *= |Learn more"
    r"|Note that|at \S+ \(|-{3,}|={3,}"
    r"|\s*at |\S+:\d+(?::\d+)?: (?:note|warning):|make: Leaving|Require stack|- /|\}|\]|Details:|Perhaps|Maybe"
    r"|Consider|Check |WARNING|Warning|warning|Stopping|Abort(?:ing|ed)\b\.?\s*\Z|Exiting|\d+ \|)"
)
_LINTERS = frozenset(
    "mypy ruff flake8 pylint eslint tsc pyright black isort prettier shellcheck golangci-lint hadolint bandit "
    "yamllint stylelint "
    "rubocop clang-tidy vulture pyflakes pycodestyle pydocstyle markdownlint biome ty semgrep pre-commit "
    "codespell".split()
)
_LINTING = frozenset("lint vet clippy typecheck type-check check-types fmt audit".split())
_COMPILERS = frozenset("gcc g++ cc c++ clang clang++ rustc javac kotlinc swiftc ghc scalac dmd nasm ocamlc".split())
_BUILDS = frozenset((("go", "build"), ("go", "run"), ("go", "install"), ("swift", "build"), ("dotnet", "build")))
_DIAGNOSIS = re.compile(r"[\w./\\+-]+[:(]\d+(?:[:,]\d+)?\)?:? ")
_NEAR = 15


def lints(program: str, words: Sequence[str]) -> bool:
    """Whether a command is there to find faults in code, so that finding some is no failure of its own."""
    if program in _LINTERS or _LINTING.intersection(words[1:4]):
        return True
    return any(word in _LINTERS for word in words[1:4])


def diagnosed(commands: Sequence[Sequence[str]], line: str) -> str:
    """The line, when a compiler of the command ends with a fault in the code that it was to build."""
    builds = any(words[0].rpartition("/")[2] in _COMPILERS or tuple(words[:2]) in _BUILDS for words in commands)
    return line if builds and _DIAGNOSIS.match(line) and "warning" not in line else ""


def meaningful(lines: Sequence[str]) -> list[str]:
    """Lines without the advice, the quoted code and the frames that programs put behind their last word."""
    kept = [line for number, line in enumerate(lines) if not number or not _ADVICE.match(line)]
    return kept or list(lines)


def failed(lines: Sequence[str], command: str) -> str:
    """The line that shows that a program of the command failed; '' when none does."""
    for line in reversed(lines[-_NEAR:]):
        if _ANYWHERE.match(line) and line.strip() not in command:
            return line
    kept = meaningful(lines)
    last = kept[-1]
    logged = any(line.startswith("Traceback (most recent call last)") for line in lines[-60:])
    if last in command or logged or _LOGGED.match(last) or len(last) > 1000:
        return ""
    return last if _LAST.match(last) and not _label_in(last, command) else ""


def _label_in(line: str, command: str) -> bool:
    """Whether the command itself holds the words that the line begins with: then it was told to print them."""
    label = line.partition(":")[0].strip()
    return ":" in line and f"{label}:" in command
