"""The verifier ``answer``: an exact answer and exact effects; no code runs."""

from __future__ import annotations

from ...models import AnswerVerifier
from .submission import Submission, Verdict, broken_task


async def verify(submission: Submission) -> Verdict:
    """Compare the submitted answer and the effects of the episode with the task's own."""
    verifier = submission.task.verifier
    if not isinstance(verifier, AnswerVerifier):
        raise broken_task(submission.task, "no answer to compare with")
    return Verdict(
        {
            "answer": float(not submission.problem and submission.answer.strip() == verifier.answer.strip()),
            "effects": float(not submission.problem and dict(submission.effects) == verifier.effects),
        },
        end_cause=submission.problem,
    )
