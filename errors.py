"""Every exception that Etude raises on purpose.

Each message is one line: what is wrong, then what to do. A bad rollout is data, not a crash: an agent's mistake becomes
a result that the agent reads; only a mistake of the user or a failure of the machine is raised. Each boundary has a
branch, so that a caller can separate a mistake in its request from a failure of the machine:

EtudeError
├── UnknownName (KeyError), BadAddress (ValueError)
├── LLMError                               a model behind an endpoint
│   ├── EndpointRefused, BudgetSpent, CassetteMiss
│   └── EndpointFailed                     of one call: EndpointUnavailable, ContextFull, AccessDenied
├── ServerError                            a server's answer, as the client sees it
│   └── ServerInfrastructureError, ServerFull, ConnectionLost
├── SandboxError                           the sandbox itself failed: SandboxUnavailable, EngineGone
├── SnapshotError                          a source could not be made runnable
│   ├── BadSource, SourceNotFound, BrokenArchive, BadOptions, UnsupportedPython
│   ├── BuildFailed, DependencyFailed, PatchError
│   └── NoTests, CollectionFailed, NonePassing, SuiteTimeout, WrongModule
├── InfrastructureError (RuntimeError)     the machine failed while an episode was played; the episode is void
├── SessionError, FaultsError (ValueError) a session or a schedule of faults was used wrongly
├── ToolError                              a result that the agent reads; StatedFault says how to go around it
├── GraderError                            a task cannot be graded; never a score
├── TaskSetError, RunError, UnwritableRow, EpisodeNotKept
├── LogError                               a log of another tool cannot be read
├── UnreadableLine                         a line that a user typed cannot be read
├── HubError                               the Hub, or what a repository there holds
├── GeneratorError                         a request cannot produce any candidate; OutOfTime: the machine is too busy;
│                                          NotApplicable: the source lacks what the generator needs
├── RowError                               a row of a public data set, or its source, cannot be read
├── Rejected                               one candidate failed validation; ``reason`` is counted
├── ExportError, ReportError, DemoError, BenchError   a command's output cannot be made
└── training                               RecipeError, TableError, ChatError (ValueError), UnwritableTurn,
                                           UnsuitableModel, TrainingRunError, ReplayError
"""

from __future__ import annotations

import re


class EtudeError(Exception):
    """Base of every exception that Etude raises on purpose."""


class UnknownName(EtudeError, KeyError):
    """Raised for a name that is not registered; the message offers the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0])


# --- A model behind an endpoint -----------------------------------------------------------------------------


class LLMError(EtudeError):
    """Raised when a model cannot be asked."""


class EndpointRefused(LLMError):
    """Raised when no call can succeed until a setting changes."""


class EndpointFailed(LLMError):
    """Raised when one call got no answer; another call may."""


class EndpointUnavailable(EndpointFailed):
    """Raised when the endpoint did not answer any attempt; another call would fare no better now."""


class ContextFull(EndpointFailed):
    """Raised when the messages are longer than the model reads."""


class AccessDenied(EndpointFailed):
    """Raised when a call is refused for the key or the account's credit after others were answered."""


class BudgetSpent(LLMError):
    """Raised when the budget allows no further call."""


class CassetteMiss(LLMError):
    """Raised when the cassette does not hold this request."""


# --- A server, as its client sees it ------------------------------------------------------------------------


class ServerError(EtudeError):
    """Raised when the server refuses a call. ``code`` is the wire's, such as ``VALIDATION_ERROR``."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ServerInfrastructureError(ServerError):
    """Raised when the server's machine failed. The episode is void and has no score; reset to play another."""


class ServerFull(ServerError):
    """Raised when every session of the server is in use; the message says how to allow more."""


class ConnectionLost(ServerError):
    """Raised when the connection, and the session with it, does not exist any more; the message says why."""


class BadAddress(EtudeError, ValueError):
    """Raised for text that is not the address of a server."""


# --- Sandboxes and snapshots --------------------------------------------------------------------------------


class SandboxError(EtudeError):
    """Raised when the sandbox itself fails, not the command in it: infrastructure, never a score."""


class SandboxUnavailable(SandboxError):
    """Raised when a backend cannot run here; the message names what is missing and how to get it."""


class EngineGone(SandboxError):
    """Raised when the container engine stopped answering; the same request may be sent to its successor."""


class SnapshotError(EtudeError):
    """Raised when a source cannot be made runnable; each subclass names the step."""


class BadSource(SnapshotError):
    """Raised when a source's name is malformed, or the source holds what a source may not."""


class SourceNotFound(SnapshotError):
    """Raised when a version, repository, folder or archive does not exist, or its content is not the recorded one."""


class BrokenArchive(SnapshotError):
    """Raised when an archive cannot be read, or would write outside its own folder."""


class BadOptions(SnapshotError):
    """Raised when an option or a recipe file cannot be understood."""


class UnsupportedPython(SnapshotError):
    """Raised when the requested interpreter is not available, or the project refuses it."""


class BuildFailed(SnapshotError):
    """Raised when the project's own build or a set-up command fails; carries the last lines of its log."""


class DependencyFailed(SnapshotError):
    """Raised when a dependency cannot be resolved or installed; carries the last lines of the installer's log."""


class NoTests(SnapshotError):
    """Raised when the source holds no tests."""


class CollectionFailed(SnapshotError):
    """Raised when pytest cannot collect a single test."""


class NonePassing(SnapshotError):
    """Raised when tests ran and none of them passes every time."""


class SuiteTimeout(SnapshotError):
    """Raised when the suite did not end in time; names the last test that started."""


class WrongModule(SnapshotError):
    """Raised when the tests import another copy of the package than the one in the tree."""


class PatchError(SnapshotError):
    """Raised when a patch does not apply."""


# --- Episodes and tasks -------------------------------------------------------------------------------------


class InfrastructureError(EtudeError, RuntimeError):
    """Raised when the machine failed, not the agent: the episode is void. The message never carries a host path."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"infrastructure: {redact_paths(cause)}")


def redact_paths(text: str) -> str:
    """Return one line of at most 500 characters without absolute paths, except those that the agent sees anyway."""
    shown = re.sub(r"(?<![\w.])/(?!workspace\b|opt/etude\b)[\w.+@~-]+(?:/[\w.+@~-]*)*", "<path>", text)
    return " ".join(shown.split())[:500] or "unknown cause"


class SessionError(EtudeError):
    """Raised when a session is used wrongly; the message says what to do instead."""


class ToolError(EtudeError):
    """Raised by a tool whose call failed. ``code`` is that of the status line, the message its text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StatedFault(ToolError):
    """Raised for a failure that no agent could foresee and whose text says how to go around it; ``fault`` names it."""

    def __init__(self, code: str, message: str, fault: str) -> None:
        super().__init__(code, message)
        self.fault = fault


class FaultsError(EtudeError, ValueError):
    """Raised when a fault schedule cannot be read; the message says what to write instead."""


class GraderError(EtudeError):
    """Raised when the task or the grader is broken: infrastructure, never a score."""


class TaskSetError(EtudeError):
    """Raised when a task set cannot be read; the message names the file and the line."""


class UnreadableLine(EtudeError):
    """Raised when a line that a user typed cannot be read; it costs no turn."""


class HubError(EtudeError):
    """Raised when a repository of the Hub cannot be read or written; a push that fails has committed nothing."""


class RunError(EtudeError):
    """Raised when a run cannot start; nothing has been written."""


class UnwritableRow(EtudeError):
    """Raised when an episode cannot be stored as a line; nothing of it has been written."""


class LogError(EtudeError):
    """Raised when a log of another tool cannot be read; the message names the file and the place."""


class EpisodeNotKept(EtudeError):
    """Raised when the episode to fork does not exist; the message says what to do instead."""


# --- Generators and commands --------------------------------------------------------------------------------


class GeneratorError(EtudeError):
    """Raised when a request cannot produce any candidate: an unknown knob, a bad value, nothing eligible."""


class NotApplicable(GeneratorError):
    """Raised when a source lacks what a generator needs, such as a history; ``all`` leaves that generator out."""


class OutOfTime(GeneratorError):
    """Raised when a limit ended a run on an overloaded machine, so that nothing is known about the candidate."""


class Rejected(EtudeError):
    """Raised when a candidate fails validation. ``reason`` is counted, ``detail`` explains this one."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class RowError(EtudeError):
    """Raised when a row of a public data set, or its source, cannot be read; the message names the place."""


class ExportError(EtudeError):
    """Raised when a set cannot be exported; nothing has been written."""


class ReportError(EtudeError):
    """Raised when a report cannot be made; nothing has been written."""


class BenchError(EtudeError):
    """Raised when a project that is measured beside Etude cannot be installed or measured."""


class DemoError(EtudeError):
    """Raised when a step of the demo did not do what it should; the message says which and where to look."""


# --- Training -----------------------------------------------------------------------------------------------


class RecipeError(EtudeError):
    """Raised when a recipe cannot be run; the message says what is wrong with it and what to do."""


class TableError(EtudeError):
    """Raised when a TOML table is wrong; the message says where, and what to do."""


class ChatError(EtudeError, ValueError):
    """Raised when a tokenizer or chat template cannot be used."""


class UnwritableTurn(ChatError):
    """Raised when the chat template cannot write this turn."""


class UnsuitableModel(EtudeError):
    """Raised when a model cannot be distilled; the message says why."""


class TrainingRunError(EtudeError):
    """Raised when a folder holds no training run, or a damaged one."""


class ReplayError(EtudeError):
    """Raised when stored traces cannot be replayed; the message says why, and what to do."""
