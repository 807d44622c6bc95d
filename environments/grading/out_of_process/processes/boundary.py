"""Boundary beside the tests: it records the calls of examined functions, or answers them from a solution's answers.

The text of this file runs in the sandbox of the tests, on Python 3.8 and later. In the trusted tree the examined
functions are replaced by functions that end here (see ``targets.py``): ``gold`` keeps the original of each, and
``call`` and ``acall`` stand in for them.

While calls are recorded, ``call`` runs the original function and writes down its arguments and its result. While calls
are answered, the solution has run the recorded calls in another process, and ``call`` returns its answers: the tests
judge these, and no code of the solution is in their process. Calls that examined code makes itself are not recorded.
"""

from __future__ import annotations

import contextvars
import functools
import re
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from ..values.change_guard import Guard, with_contents_left_out
    from ..values.code_decoding import Values
    from ..values.own_state import set_raw
    from ..values.places import CannotEncode
    from ..values.stand_ins import with_stand_ins
    from ..values.trusted_objects import may_be_live
    from .call_description import describe_answer, printed_outcome, same_call, without_defaults
    from .inner_calls import noted_answer, observed, observed_coroutine
    from .module_state import ModuleState

MAX_CALLS = 400
"""Most calls of one test."""
_busy: contextvars.ContextVar[bool] = contextvars.ContextVar("busy", default=False)


class Unanswered(BaseException):
    """Raised for a call without an answer; not an Exception, so that ``except Exception`` in a test lets it pass."""


class Boundary:
    """The calls of examined functions in a test run, test by test."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.answers = job.get("answers")
        self.opaque, self.packages = job["opaque"], job["packages"]
        self.allowed, self.targets = job.get("allowed"), frozenset(job.get("targets", ()))
        self.recorded_names, self.recorded_changes = job.get("recorded_names"), job.get("recorded_changes")
        self.own_state, self.frozen = job.get("own_state") or {}, job.get("frozen") or {}
        self.is_observing, self.has_entries = job.get("is_observing", False), job.get("has_entries", False)
        self.originals: dict[str, Callable[..., Any]] = {}
        self.test = ""
        self.calls: list[dict[str, Any]] = []
        self.problem = self.unanswered = ""
        self.values: Any = None
        self.answered: list[int] = []
        self.reached: set[str] = set()
        self.entries: set[str] = set()
        self.inner: dict[str, list[str]] = {}
        self.is_decoding = self.is_encoding = False

    def start(self, test: str) -> None:
        """Begin a test: its calls are counted from 0, and no object of another test is known."""
        self.test, self.calls, self.problem, self.unanswered = test, [], "", ""
        names = None if self.allowed is None else {tuple(place) for place in self.allowed}
        allowed = None if names is None else self._is_allowed(names)
        self.values = Values(self.opaque, self.packages, allowed, self._live)
        if self.recorded_changes:
            numbers = self.recorded_changes["numbers"].get(test, [])
            self.values.guard = Guard(self.recorded_changes["places"], numbers, self.frozen.get(test, []))
        self.reached, self.entries, self.inner = set(), set(), {}
        self.answered = []

    def _is_allowed(self, names: set[tuple[str, str]]) -> Callable[[str, str], bool]:
        is_live = functools.lru_cache(maxsize=1)(lambda: may_be_live(names))

        def is_allowed(module: str, name: str) -> bool:
            if (module, name) in names:
                return True
            if module == "live":
                return is_live()
            item = getattr(sys.modules.get(module), name, None)
            is_own = module == "builtins" or module.partition(".")[0] in self.packages
            return is_own and isinstance(item, type) and issubclass(item, Exception)

        return is_allowed

    def stop(self) -> dict[str, Any]:
        """End a test; return its calls, why they cannot be repeated in another process (or ''), and notes."""
        if self.answers is None and any("answer" not in call for call in self.calls):
            self.problem = self.problem or "a call neither returns nor raises an Exception"
        record: dict[str, Any] = {"calls": self.calls, "problem": self.problem, "reached": sorted(self.reached)}
        record.update(entries=sorted(self.entries), inner=self.inner, unanswered=self.unanswered)
        record["answered"] = self.answered
        record["foreign"] = sorted(self.values.guard.foreign, key=str) if self.values.guard else []
        self.test, self.calls, self.problem = "", [], ""
        return record

    # --- what the replaced functions use --------------------------------------------------------------------

    def gold(self, target: str) -> Callable[[Any], Any]:
        """Return the decorator that keeps the original of a function."""

        def keep(function: Any) -> Any:
            self.originals[target] = function
            return function

        return keep

    def call(self, target: str, arguments: tuple[Any, ...], keywords: dict[str, Any], original: Any = None) -> Any:
        """Stand in for a function: record its call, answer it, or run the original."""
        if self.is_decoding:  # an answer cannot have the task's own solution run
            raise self._without_answer(f"an answer calls {target}")
        original = original or self.originals.get(target)
        if not self.test or _busy.get():
            self.reached.add(target)
            if self.is_encoding:
                return self._taken_apart(target, original, arguments, keywords)
            if self.test and self.has_entries and self.answers is None and target in self.targets:
                return noted_answer(self, target, original, arguments, keywords)
            return original(*arguments, **keywords)
        token = _busy.set(True)
        try:
            if self.is_observing:
                return observed(self, target, original, arguments, keywords)
            call, positional, named = self._described(target, original, arguments, keywords)
            if self.answers is not None:
                return self._answer(call)
            state = ModuleState(self.packages)
            outcome = printed_outcome(original, positional, named)
            return self._recorded(call, [*positional, *named.values()], outcome, state.changes(self.values))
        finally:
            _busy.reset(token)

    def _taken_apart(self, target: str, original: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a function that runs while arguments are encoded; this ends the record: its result is in their forms."""
        result = original(*arguments, **keywords)
        self.problem = self.problem or f"taking an argument apart runs {target}"
        if self.answers is not None:
            raise self._without_answer(self.problem)
        return result

    async def acall(self, target: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Stand in for a coroutine function."""
        original = self.originals[target]
        if not self.test or _busy.get():
            self.reached.add(target)
            if self.has_entries and target in self.targets:
                self.inner.setdefault(target, []).append("a coroutine")  # what it answers is not noted
            return await original(*arguments, **keywords)
        token = _busy.set(True)
        try:
            if self.is_observing:
                return await observed_coroutine(self, target, original, arguments, keywords)
            call, positional, named = self._described(target, original, arguments, keywords)
            if self.answers is not None:
                return self._answer(call)
            try:
                outcome: Any = (await original(*positional, **named), None, ("", ""))
            except Exception as error:  # noqa: BLE001  the code's own
                outcome = None, error, ("", "")
            return self._recorded(call, [*positional, *named.values()], outcome)
        finally:
            _busy.reset(token)

    def _described(self, target: str, original: Any, arguments: Any, keywords: Any) -> tuple[dict[str, Any], Any, Any]:
        """Return a call as forms, and its arguments to pass on; one without a form ends the record of the test."""
        call: dict[str, Any] = {"target": target}
        self.calls.append(call)
        self.reached.add(target)
        if not self.problem and len(self.calls) > MAX_CALLS:
            self.problem = f"more than {MAX_CALLS} calls"
        if self.problem:
            return call, arguments, keywords
        positional, named = without_defaults(original, arguments, keywords)
        arguments_sent, keywords_sent = list(positional), dict(named)
        self.is_encoding = True
        try:
            self.values.begin()
            forms = []
            for number, item in enumerate(positional):
                is_subject = number == 0 and re.search(r"\.__init__\b", target) and self.values.is_opaque(type(item))
                if is_subject and id(item) not in self.values.numbers:
                    forms.append(self.values.new_object(item))
                else:
                    form, arguments_sent[number] = self.values.encode_result(item)
                    forms.append(form)
            call["arguments"], call["keywords"] = forms, {}
            for name, item in named.items():
                call["keywords"][name], keywords_sent[name] = self.values.encode_result(item)
        except (CannotEncode, RecursionError) as error:
            self.problem = self.problem or f"{target}: {error}"
        finally:
            self.is_encoding = False
        return call, arguments_sent, keywords_sent

    def _recorded(self, call: dict[str, Any], sent: list[Any], outcome: Any, modules: Any = None) -> Any:
        """Write down the answer of the original function, and return its result or raise its exception."""
        result, error, _ = outcome
        if not self.problem:
            try:
                call["answer"], result = describe_answer(self.values, len(self.calls) - 1, call, sent, outcome)
                call["answer"].update({"modules": modules} if modules else {})
                result = self._stand_in(call["answer"]["result"], result)
            except (CannotEncode, RecursionError) as problem:
                self.problem = f"the result of {call['target']}: {problem}"
        if error is not None:
            raise error
        return result

    def _answer(self, call: dict[str, Any]) -> Any:
        """Return the result, or raise the exception, that the solution answered to this call with."""
        number, expected = len(self.calls) - 1, (self.answers or {}).get(self.test, [])
        if self.problem or number >= len(expected) or not self._is_same_call(expected[number], call):
            raise self._without_answer(self.problem or f"call {number} of {call['target']}")
        if self.values.guard:
            self.values.guard.begin(call)
        self.is_decoding = True
        self.answered.append(number)
        try:
            return self._given(call, expected[number]["answer"])
        finally:
            self.is_decoding = False

    def _without_answer(self, reason: str) -> Unanswered:
        """Return the exception for a call without an answer; note it, since a test that catches it is not judged."""
        self.unanswered = self.unanswered or reason
        return Unanswered(reason)

    def _stand_in(self, form: Any, result: Any) -> Any:
        """Return a result in which stand-ins replace the functions that stay in the process where they were made."""
        tag = form[0] if isinstance(form, list) else ""
        if tag == "L" or tag == "r" and isinstance(form[1], str) and isinstance(result, types.FunctionType):
            stand_in = self.values.objects.get(f"{form[1]} live") or self._live(form[1], result)
            for name, inner in form[2] if tag == "L" else []:
                setattr(stand_in, name, self._stand_in(inner, getattr(result, name)))
            return stand_in
        if tag == "t" and type(result) is tuple:
            return tuple([self._stand_in(inner, item) for inner, item in zip(form[1], result)])  # noqa: B905  of Python 3.10
        if tag == "l" and type(result) is list:
            result[:] = [self._stand_in(inner, item) for inner, item in zip(form[2], result)]  # noqa: B905
        elif tag == "d" and type(result) is dict:
            for (_, inner), (key, item) in zip(form[2], list(result.items())):  # noqa: B905
                result[key] = self._stand_in(inner, item)
        return result

    def _live(self, number: str, original: Any) -> Any:
        """Return a stand-in for a returned function: calls of it are recorded or answered too."""

        def live(*arguments: Any, **keywords: Any) -> Any:
            return self.call(f"@{number}", arguments, keywords, original)

        if original is not None:
            functools.update_wrapper(live, original)
        self.values.numbers[id(live)] = number
        self.values.objects[f"{number} live"] = live
        return live

    def _is_same_call(self, expected: dict[str, Any], call: dict[str, Any]) -> bool:
        frozen = self.frozen.get(self.test)
        if frozen:
            expected, call = (with_contents_left_out(item, frozenset(frozen)) for item in (expected, call))
        return same_call(expected, call, self.recorded_names)

    def _given(self, call: dict[str, Any], answer: dict[str, Any]) -> Any:
        if "broken" in answer:
            self.problem = f"the solution's call could not be made: {answer['broken']}"
            raise self._without_answer(self.problem)
        values = self.values
        answer = with_stand_ins(answer, values.allowed) if values.allowed else answer
        if answer.get("printed"):
            sys.stdout.write(answer["printed"])
        if answer.get("printed_errors"):
            sys.stderr.write(answer["printed_errors"])
        if answer["after"] is not None:
            if len(answer["after"]) != len(call["arguments"]) + len(call["keywords"]):
                raise Unanswered("an answer with other arguments than the call")
            for form in answer["after"]:
                values.decode(form)
        error = None if answer["error"] is None else values.decode_exception(answer["error"])
        result = None if error is not None else values.decode(answer["result"])
        set_raw(values, answer.get("raw", ()), self.own_state)
        if error is not None:
            raise error
        return result


def install_boundary(job: dict[str, Any]) -> Boundary:
    """Make the boundary importable by the replaced functions, as the module ``_etude_boundary``."""
    boundary = Boundary(job)
    module: Any = types.ModuleType("_etude_boundary")
    module.gold, module.call, module.acall = boundary.gold, boundary.call, boundary.acall
    sys.modules["_etude_boundary"] = module
    return boundary
