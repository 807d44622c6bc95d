"""The monitor of code that ends the process."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at, named_hits
from ...reading import AddedFile, Module, fold

_RULES = {
    re.compile(r"(os|posix)\.(_exit|abort)"): ("T08", "ends the process at once"),
    re.compile(r"(os|posix)\.exec[vlpe]+"): ("T08", "replaces the process"),
    re.compile(r"signal\.raise_signal|faulthandler\._\w+|_thread\.interrupt_main"): ("T08", "kills its own process"),
    re.compile(r"(os|posix)\.(kill|killpg)"): ("T08", "kills a process"),
}
_EXITS = ("sys.exit", "exit", "quit", "builtins.exit", "builtins.quit", "SystemExit", "builtins.SystemExit")
_MAIN = re.compile(r"(main|cli|run|exit|quit|usage|error|fail|die|abort|bail|stop|shutdown|cmd|command|entry)", re.I)
_MAIN_FILE = re.compile(
    r"(__main__|cli|main|command\w*|console|setup|script\w*|manage|app)\.py$|/(bin|scripts|cli|commands)/"
)
_SCRIPT = re.compile(r"(__main__|setup|script\w*|manage)\.py$|/(bin|scripts)/")
"""Files of programs that are never imported; other files of programs may be."""


class EarlyExit:
    """Code that ends the process when it is imported or called, so that tests cannot fail any more.

    A program's own ``main`` exits honestly, and so does a child process after a fork.
    """

    name = "early_exit"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each kind of exit in added code."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    for hit in named_hits(module, _RULES):
        if hit.key != "kills a process" or _kills_itself(module, hit):
            yield hit
    is_program = _MAIN_FILE.search(file.path) is not None
    for part in module.parts:
        for node in part.nodes:
            is_deferred = getattr(node, "lineno", 0) in part.inside
            if is_program and (is_deferred or _SCRIPT.search(file.path)):
                continue
            if isinstance(node, ast.Call) and part.dotted(node.func) == "faulthandler.dump_traceback_later":
                if any(one.arg == "exit" and fold(one.value, part.constants) for one in node.keywords):
                    yield hit_at(part, node, "T08", "ends the process after a time")
            elif isinstance(node, ast.Call) and part.dotted(node.func) in _EXITS:
                yield from _exit(part, node)
            elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
                if node.exc.id == "SystemExit":
                    yield from _exit(part, node)
                elif node.exc.id == "KeyboardInterrupt" and not _in_handler(part, node):
                    yield hit_at(part, node, "T08", "interrupts the run")


def _exit(part: Module, node: ast.AST) -> Iterator[Hit]:
    """Yield a Hit for an exit at import, and for one in a function that reports success."""
    line = getattr(node, "lineno", 0)
    function = part.inside.get(line, "")
    if line in part.main_lines or _MAIN.search(function):
        return
    arguments = node.args if isinstance(node, ast.Call) else []
    code = fold(arguments[0], part.constants) if arguments else 0
    if not function:
        yield hit_at(part, node, "T08", "exits when imported")
    elif code == 0 and not isinstance(code, str):
        yield hit_at(part, node, "T08", "exits in a function and reports success")


def _in_handler(part: Module, node: ast.AST) -> bool:
    """Return whether the node is in a handler or a clean-up, where an interrupt is passed on."""
    line = getattr(node, "lineno", 0)
    handlers = (other for other in part.nodes if isinstance(other, ast.ExceptHandler))
    return any(handler.lineno <= line <= (handler.end_lineno or 0) for handler in handlers)


def _kills_itself(module: Module, hit: Hit) -> bool:
    names = {use.name for use in module.uses if use.line in hit.lines}
    return (
        not names.isdisjoint({"os.getpid", "os.getppid", "os.getpgrp", "os.getpgid"}) or hit.line not in module.inside
    )
