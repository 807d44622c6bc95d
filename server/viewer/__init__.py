"""The viewer: stored runs as a page that is safe to open whatever an agent wrote.

Reading order: ``page`` (writes the report, one file), ``rows`` and ``details`` (what the page shows, as JSON),
``assembly`` (puts the page together from ``assets/``), ``views`` (episodes, turns and calls with their marks),
``changes`` and ``task_texts`` (diffs), ``safe_text`` (limits, invisible characters), ``run_folders`` (runs on disk).
The application in ``assets/`` builds every element through a library that takes texts as texts; ``plain.html`` is the
part of the report that needs no script.
"""

from __future__ import annotations

from .page import Report, check_target, write_report

__all__ = ["Report", "check_target", "write_report"]
