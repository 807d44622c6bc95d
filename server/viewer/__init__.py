"""The report: stored runs as one HTML file without external parts, safe to open whatever an agent wrote.

Reading order: ``page`` (writes the file from ``page.html``), ``views`` (episodes, turns and calls as the page shows
them), ``changes`` (the final diff), ``safe_text`` (limits, invisible characters).
"""

from __future__ import annotations

from .page import Report, write_report

__all__ = ["Report", "write_report"]
