"""The generator ``bug_llm``: a language model rewrites one tested function with a mistake in it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ....environments.rng import stream
from ....errors import EndpointFailed, EndpointUnavailable, Rejected
from ....models import GeneratorRef
from ...base import Candidate, Rejection, TestPolicy
from ...model_endpoint import AsksModel
from ...python.mutants import Mutant
from ...python.source import Module, line_span
from ...python.tested_code import TestedCode
from ...statements.styles import StyleChoice
from .family import BugGenerator, Site, affected, candidate_of
from .places.module_code import Function, ModuleCode

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_IDEAS = (
    "a boundary that is off by one", "two values that are exchanged", "a special case that is forgotten",
    "state that is not reset, or is reset too early", "a condition that is too wide or too narrow",
    "an order that is reversed", "a default that is wrong", "a value that is converted too early or too late",
    "an error that is caught where it should not be", "a copy that is missing",
)  # fmt: skip
_SYSTEM = (
    "You make exercises in debugging. You rewrite a function of a Python package so that it has a mistake, as a "
    "programmer could make it: the function still compiles, most calls still work, and tests that look closely fail. "
    "Keep the name, the parameters, the decorators and the docstring. Add no comment and no new docstring. Answer "
    "with the whole function in one block of code, and nothing else."
)


@dataclass(frozen=True)
class Knobs:
    """Which functions the model gets, and what the workspace shows of the tests."""

    min_lines: Annotated[int, Field(ge=2)] = 6
    """Fewest lines that a function may have."""
    max_lines: Annotated[int, Field(ge=2)] = 80
    """Most lines that a function may have."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the function."""
    style: StyleChoice = "seeded"
    """Who writes the statement: a user (``issue``), a maintainer (``instruction``), in a word (``terse``), or drawn."""


class LLMBug(BugGenerator, AsksModel):
    """Let a language model put a mistake into one tested function; needs the endpoint of ``--llm``."""

    name = "bug_llm"
    version = "4"
    knobs = Knobs

    def sites(self, module: Module, lines: Collection[int], knobs: Knobs) -> Iterator[Site]:
        """Yield each function as it is, in whole lines without its decorators."""
        if not lines:
            return
        code = ModuleCode(module, lines)
        for node in code.nodes():
            if isinstance(node, Function) and code.lines_span(node) and code.function(node) is None:
                start, end = line_span(code.source, code.span(node))
                text = code.source[start:end]
                tested = code.body_lines(node)
                if knobs.min_lines <= text.count(b"\n") <= knobs.max_lines and tested and text.endswith(b"\n"):
                    yield Site(module.path, Mutant(code.source, node.name, start, end, text), tested)

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per answer, in seed order. Raises NotApplicable without an endpoint, LLMError."""
        endpoint = self.required_endpoint()
        code = TestedCode(snapshot)
        recorded = {**asdict(knobs), "model": endpoint.model}
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=recorded)
        for site in self.in_order(self.decided(code, knobs), seed):
            ideas = stream(seed, self.name, f"{site.path}:{site.mutant.start}").sample(_IDEAS, 3)
            blocked, mutant = None, site.mutant
            try:
                mutant = rewritten(site.mutant, endpoint.ask(_prompt(site, ideas), max_tokens=4096))
            except EndpointUnavailable:
                raise
            except EndpointFailed as error:
                blocked = Rejection("llm_failed", str(error))
            except Rejected as rejected:
                blocked = Rejection(rejected.reason, rejected.detail)
            # A function whose answer cannot be used keeps an id of its own.
            marked = mutant.source if blocked is None else mutant.source + str(mutant.start).encode()
            candidate = candidate_of({site.path: marked}, affected(code, [site]), reference, knobs)
            yield replace(candidate, blocked=blocked, exercise={} if blocked else candidate.exercise)


def _prompt(site: Site, ideas: list[str]) -> list[dict[str, str]]:
    """Return the messages that ask for a mistake; ``ideas`` make the answers differ."""
    code = textwrap.dedent(site.mutant.text.decode())
    text = (
        f"A mistake could be: {'; '.join(ideas)}; or any other.\n\nThe file is {site.path}.\n\n```python\n{code}```\n"
    )
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": text}]


def rewritten(function: Mutant, answer: str) -> Mutant:
    """Return the file with the function of an answer. Raises Rejected for an answer that cannot be used."""
    blocks = re.findall(r"```[\w-]*\n(.*?)```", answer, re.DOTALL)
    before = textwrap.dedent(function.text.decode())
    code = textwrap.dedent(max(blocks, key=len) if blocks else answer).strip("\n") + "\n"
    old, new = _definition(before), _definition(code)
    if old is None or new is None:
        raise Rejected("llm_answer", "the answer is not one function")
    code = "".join(code.splitlines(keepends=True)[new.lineno - 1 :])  # the decorators stay as they are
    if (old.name, ast.dump(old.args), type(old)) != (new.name, ast.dump(new.args), type(new)):
        raise Rejected("llm_answer", "the answer changes the name or the parameters of the function")
    if ast.get_docstring(old) != ast.get_docstring(new):
        raise Rejected("llm_answer", "the answer changes the docstring")
    if comments := _comments(code) - _comments(before):
        raise Rejected("llm_answer", f"the answer adds a comment: {min(comments)}")
    indent = function.text[: len(function.text) - len(function.text.lstrip(b" \t"))].decode()
    mutant = replace(function, text=textwrap.indent(code, indent).encode())
    if not mutant.changes_code():
        raise Rejected("llm_answer", "the answer does not change what the function does")
    return mutant


def _definition(code: str) -> Function | None:
    """Return the one function that the code defines; None for any other code."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        return None
    return body[0] if len(body) == 1 and isinstance(body[0], Function) else None


def _comments(code: str) -> set[str]:
    """Return the ends of lines that look like comments."""
    return {match[0].strip() for match in re.finditer(r"(?<![\"'\w])#.*$", code, re.MULTILINE)}
