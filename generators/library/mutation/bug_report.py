"""The statement of the mutation generators: a report of what misbehaves."""

from __future__ import annotations

from dataclasses import dataclass

from ...base import StatementContext, TestPolicy
from ...statements.behaviours import behaviour_lines, bullets, interface_lines

_HEADINGS = {
    "hidden": "Tests that are not part of this code base fail. They are about",
    "visible": "These tests of the code base fail",
    "half": "These tests fail; half of them are part of the code base",
}


@dataclass(frozen=True)
class BugReport:
    """What a user of the package can report: what misbehaves, not where the mistake is."""

    policy: TestPolicy

    def render(self, context: StatementContext) -> str:
        """Return the report: the failing behaviours, and the names of the package that they use."""
        paragraphs = [
            f"# Wrong behaviour in {context.package}",
            "A recent change to this code base, the package named above, put a mistake into its code: some calls give "
            "wrong results, or raise where they should not. No documentation changed, so it still describes the right "
            "behaviour. Find the mistake and correct it in the package; everything else works and has to keep working.",
        ]
        behaviours = behaviour_lines(context.failing)
        if behaviours:
            paragraphs.append(f"## What is wrong\n\n{_HEADINGS[self.policy]}:\n\n{bullets(behaviours)}")
        names = interface_lines(context.interface)
        if names:
            paragraphs.append("## Interface\n\nThe failing tests use:\n\n" + "\n".join(names))
        return "\n\n".join(paragraphs) + "\n"
