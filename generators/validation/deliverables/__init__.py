"""Validation of candidates whose agent hands in something else than a change of the source.

What is shown is the same as for hidden tests: the oracle scores 1 twice in fresh sandboxes, doing nothing and trivial
attempts score 0, the tests that the workspace shows pass, and nothing that the agent can read holds the answer.
``written_tests`` has the stages of tests that the agent writes, ``exact_answers`` those of questions, ``audit`` what
``etude validate`` checks of such rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....environments.tasks.task_trees import Materials
from ....errors import Rejected
from ....models import Task
from ...base import Candidate, Deliverable, WrittenTests
from ..checks.final_checks import CheckKnobs
from ..checks.leaks import LeakCheck
from ..measured_stages import Stages
from .audit import unstable
from .exact_answers import AnswerStages
from .written_tests import TestStages


@dataclass
class Deliverables:
    """The stages for the candidates of one Snapshot."""

    stages: Stages  # runs on the Snapshot
    leaks: LeakCheck  # what the Snapshot's tasks share of the leak scan
    knobs: CheckKnobs = CheckKnobs()  # the knobs of validation
    _tests: TestStages = field(init=False, repr=False)
    _answers: AnswerStages = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._tests = TestStages(self.stages, self.leaks)
        self._answers = AnswerStages(self.stages)

    async def task(self, candidate: Candidate, deliverable: Deliverable) -> Task:
        """Return the task that the candidate becomes. Raises Rejected with the stage's reason."""
        if self.knobs.assurance == "out_of_process":
            raise Rejected("v9_assurance", "what the agent hands in is not graded by recorded calls")
        if isinstance(deliverable, WrittenTests):
            task = await self._tests.task(candidate, deliverable)
            snapshot, backend = self.stages.snapshot, self.stages.backend
            if flaky := await unstable(task, Materials(task, snapshot), self.knobs.reruns, backend):
                raise Rejected("v10_flaky", flaky)
            return task
        return await self._answers.task(candidate, deliverable)
