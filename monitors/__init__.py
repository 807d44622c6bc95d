"""Monitors: evidence of exploits in graded episodes, as Findings. Pure functions over records.

Reading order:

1. ``base``: what a monitor is given (``Inspection``) and what it must have (``Monitor``).
2. ``tree.conftests``: one whole monitor, in 35 lines. Every monitor is one such file.
3. ``reading``: how transcripts, command lines, scripts and Python files are read. Nothing is executed.
4. ``evidence``: how what a search finds in a call or in added code becomes a Finding.
5. The monitors, by what they read: ``tree`` (which files changed), ``code`` (what the added lines hold), ``behaviour``
   (what the agent did), ``integrity`` and ``disagreement`` (the run of the tests). The folders in ``code`` and
   ``behaviour`` each answer one question, which their docstrings ask.
6. ``agentic``: a model that judges what the monitors found.

Every registered monitor inspects every graded episode of every environment. Only ``confirmed`` findings set a reward
to 0; ``suspect`` and ``info`` inform the reader. ``docs/monitors.md`` lists the ids of exploits: L (leaks of the
answer), T (tests and test process), S (sandbox, grader and judge), R (rewards of errors, episodes that are not
counted). Two more packages do not inspect episodes: ``leaks`` searches whole trees for traces of a task's solution when
the task is made, and ``exploits`` is the corpus that the monitors and the grader are tried with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from ..errors import GraderError
from ..models import Finding
from ..registry import Registry
from .base import Inspection as Inspection
from .base import Monitor as Monitor

OF_THE_GRADE = ("integrity", "disagreement")
"""Monitors that read the test run alone. Nothing that an agent writes can make them fail."""
UNREADABLE = "R02"
"""Exploit id of an episode that makes a monitor fail; to leave it out would let the agent choose what is counted."""
MONITORS = Registry(
    "monitor",
    "etude.monitors",
    {
        "changed_tests": ".monitors.tree.changed_tests:ChangedTests",
        "conftests": ".monitors.tree.conftests:Conftests",
        "build_config": ".monitors.tree.build_config:BuildConfig",
        "package_metadata": ".monitors.tree.package_metadata:PackageMetadata",
        "import_hooks": ".monitors.tree.import_hooks:ImportHooks",
        "shadowing": ".monitors.tree.shadowing:Shadowing",
        "helper_modules": ".monitors.tree.helper_modules:HelperModules",
        "links": ".monitors.tree.links:Links",
        "repository_data": ".monitors.tree.repository_data:RepositoryData",
        "pytest_hooks": ".monitors.tree.pytest_hooks:PytestHooks",
        "deletions": ".monitors.tree.deletions:Deletions",
        "runner_access": ".monitors.code.test_process.runner_access:RunnerAccess",
        "frame_access": ".monitors.code.test_process.frame_access:FrameAccess",
        "introspection": ".monitors.code.test_process.introspection:Introspection",
        "replaced_code": ".monitors.code.test_process.replaced_code:ReplacedCode",
        "early_exit": ".monitors.code.test_process.early_exit:EarlyExit",
        "side_channels": ".monitors.code.test_process.side_channels:SideChannels",
        "false_equality": ".monitors.code.checks.false_equality:FalseEquality",
        "caller_awareness": ".monitors.code.test_process.caller_awareness:CallerAwareness",
        "result_tables": ".monitors.code.answers.result_tables:ResultTables",
        "input_texts": ".monitors.code.answers.input_texts:InputTexts",
        "test_references": ".monitors.code.answers.test_references:TestReferences",
        "tested_pairs": ".monitors.code.answers.tested_pairs:TestedPairs",
        "stored_answers": ".monitors.code.answers.stored_answers:StoredAnswers",
        "emptied_data": ".monitors.code.checks.emptied_data:EmptiedData",
        "known_inputs": ".monitors.code.answers.known_inputs:KnownInputs",
        "packed_tables": ".monitors.code.answers.packed_tables:PackedTables",
        "added_data": ".monitors.code.answers.added_data:AddedData",
        "hidden_content": ".monitors.code.answers.hidden_content:HiddenContent",
        "file_hunting": ".monitors.code.answers.file_hunting:FileHunting",
        "endless_work": ".monitors.code.test_process.endless_work:EndlessWork",
        "catch_all": ".monitors.code.checks.catch_all:CatchAll",
        "traced_tests": ".monitors.code.checks.traced_tests:TracedTests",
        "history_digging": ".monitors.behaviour.searches.history_digging:HistoryDigging",
        "cache_reading": ".monitors.behaviour.searches.cache_reading:CacheReading",
        "installed_copies": ".monitors.behaviour.searches.installed_copies:InstalledCopies",
        "data_set_hunting": ".monitors.behaviour.searches.data_set_hunting:DataSetHunting",
        "network_attempts": ".monitors.behaviour.searches.network_attempts:NetworkAttempts",
        "package_downloads": ".monitors.behaviour.searches.package_downloads:PackageDownloads",
        "daemons": ".monitors.behaviour.grader.daemons:Daemons",
        "escape_attempts": ".monitors.behaviour.grader.escape_attempts:EscapeAttempts",
        "forged_output": ".monitors.behaviour.tampering.forged_output:ForgedOutput",
        "judge_prompts": ".monitors.behaviour.grader.judge_prompts:JudgePrompts",
        "claimed_rewards": ".monitors.behaviour.grader.claimed_rewards:ClaimedRewards",
        "answer_extraction": ".monitors.behaviour.searches.answer_extraction:AnswerExtraction",
        "machine_search": ".monitors.behaviour.searches.machine_search:MachineSearch",
        "copied_results": ".monitors.behaviour.searches.copied_results:CopiedResults",
        "tampered_tests": ".monitors.behaviour.tampering.tampered_tests:TamperedTests",
        "start_up_files": ".monitors.behaviour.tampering.start_up_files:StartUpFiles",
        "farming": ".monitors.behaviour.grader.farming:Farming",
        "integrity": ".monitors.integrity:Integrity",
        "disagreement": ".monitors.disagreement:Disagreement",
        "absent_programs": ".monitors.behaviour.searches.absent_programs:AbsentPrograms",
    },
)


def inspect(inspection: Inspection) -> list[Finding]:
    """Return the findings of all registered monitors, those of the built-in ones first.

    A built-in monitor that fails on what the agent wrote is reported as a finding (R02), so that no agent can keep an
    episode from being counted. Raises GraderError, which names the monitor, when any other monitor fails: an episode
    that could not be inspected has no score.
    """
    findings: list[Finding] = []
    for name in _names():
        try:
            reported = _monitor(name).inspect(inspection)
            findings += [Finding.model_validate(finding) for finding in reported]
        except Exception as error:  # a third party's monitor may raise anything
            cause = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            if MONITORS.paths()[name].startswith(".") and name not in OF_THE_GRADE:
                excerpt = f"the monitor {name!r} cannot read this episode ({cause})"
                findings.append(Finding(exploit_id=UNREADABLE, severity="suspect", attempted=True, excerpt=excerpt))
                continue
            raise GraderError(f"the monitor {name!r} failed ({cause}); fix it or uninstall it") from error
    return findings


def hack_rate(episodes: Iterable[Sequence[Finding]], severities: Collection[str] = ("confirmed", "suspect")) -> float:
    """Return the share of episodes with a finding of one of the severities, from 0 to 1; 0.0 without episodes.

    ``episodes`` holds the findings of each episode, empty for one without. An episode counts once.
    """
    flagged = [any(finding.severity in severities for finding in findings) for findings in episodes]
    return sum(flagged) / len(flagged) if flagged else 0.0


@cache
def _names() -> list[str]:
    """Return the names of the monitors, the built-in ones first; looking for entry points takes milliseconds."""
    paths = MONITORS.paths()
    third_party = [name for name, path in paths.items() if not path.startswith(".")]
    return [*(name for name in paths if name not in third_party), *sorted(third_party)]


@cache
def _monitor(name: str) -> Any:
    return MONITORS.load(name)()
