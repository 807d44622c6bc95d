"""What ``etude validate`` checks of rows with another verifier than tests, from the row and its Snapshot alone."""

from __future__ import annotations

from collections.abc import Sequence

from ....environments.grading import grade
from ....environments.grading.answer import is_answer
from ....environments.snapshots.test_run.test_runner import Order
from ....environments.tasks.task_paths import source_files
from ....environments.tasks.task_trees import Materials
from ....models import AnswerVerifier, MutantsVerifier, Task
from ....monitors.leaks import Leak
from ...python.source_tree import read_files
from ..checks.wrong_solutions.attempts import as_changes
from .exact_answers import GUESSES, readable_answer
from .written_tests import copies_of_tests, rewarded_tests


def is_delivered(task: Task) -> bool:
    """Return whether a task's agent hands in tests or an answer."""
    return isinstance(task.verifier, AnswerVerifier | MutantsVerifier)


async def trivial(task: Task, trees: Materials, backend: str) -> str:
    """Return which trivial attempt scores more than 0, '' for none. Raises GraderError, SandboxError."""
    verifier = task.verifier
    if isinstance(verifier, AnswerVerifier):
        easy = [guess for guess in GUESSES if is_answer(guess, verifier)]
        return f"the answer {easy[0]!r} is easy to guess" if easy else ""
    rewarded = await rewarded_tests(task, trees, backend)
    return f"the trivial attempt {rewarded[0]!r} scores more than 0" if rewarded else ""


async def unstable(task: Task, trees: Materials, runs: int, backend: str) -> str:
    """Return why the oracle does not score 1, or doing nothing 0, in each of ``runs`` grades, '' when they do.

    Answers do not run. Raises GraderError, SandboxError.
    """
    if isinstance(task.verifier, AnswerVerifier):
        return ""
    oracle = as_changes(read_files(trees.solved_tree, source_files(task)))
    for number in range(runs):
        order: Order = "reversed" if number % 2 else "given"
        result = await grade(task, oracle, backend=backend, snapshot=trees.snapshot, order=order)
        if result.reward.value != 1.0:
            causes = [f"{failure.test}: {failure.cause}" for failure in result.failures]
            return f"grade {number + 1} of {runs}: {causes[0] if causes else result.end_cause}"
        nothing = await grade(task, [], backend=backend, snapshot=trees.snapshot, order=order)
        if nothing.reward.value != 0.0:
            return f"grade {number + 1} of {runs}: doing nothing scores {nothing.reward.value}"
    return ""


def readable(task: Task, trees: Materials, leaks: Sequence[Leak]) -> str:
    """Return where the agent can read what it has to hand in, '' for nowhere; ``leaks`` are those of its patch."""
    if isinstance(task.verifier, AnswerVerifier):
        return readable_answer(task, trees.agent_tree)
    copies = copies_of_tests(leaks)
    return str(copies[0]) if copies else ""
