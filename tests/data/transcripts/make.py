"""Print the corpus: each story in the etude dialect, and in each other dialect with two ways of reporting."""

from __future__ import annotations

import json
import sys

import dev_last  # noqa: F401
import dev_fresh  # noqa: F401
import dev_fresh_two  # noqa: F401
import dev_late  # noqa: F401
import dev_shells  # noqa: F401
import dev_tools  # noqa: F401
import harnesses  # noqa: F401  its logs join the hand-written ones
import harnesses_two  # noqa: F401
import harnesses_unseen  # noqa: F401
from episodes import STORIES
from oddities import LOGS
from telling import tell

REPORTS = {
    "openai": ("status", "plain", "json", "returncode", "trailer"),
    "hermes": ("plain", "json", "returncode", "trailer", "status"),
    "react": ("json", "returncode", "trailer", "status", "plain"),
}


def main() -> None:
    rows = []
    for number, story in enumerate(STORIES):
        rows.append(tell(story, "etude", "status"))
        for dialect, ways in REPORTS.items():
            for way in (ways[number % 5], ways[(number + 2) % 5]):
                rows.append(tell(story, dialect, way))
    for row in [*rows, *LOGS]:
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
