"""Logs of other tools, read into episodes with error turns and hints. The text of a log is never trusted or executed.

Reading order: ``log_file`` (a file as JSON values with their places), ``collection`` (the files that a command names),
``record`` (an episode as a format's reader returns it), ``formats`` (one reader per format), ``blocks`` and
``response_items`` (content that several formats share), ``stored`` (the Episode and its row), ``annotating`` (the whole
command).
"""

from __future__ import annotations

from ...registry import Registry

LOG_FORMATS = Registry(
    "log format",
    "etude.logs",
    {
        "etude": ".environments.logs.formats.etude_run:FORMAT",
        "atif": ".environments.logs.formats.atif:FORMAT",
        "inspect": ".environments.logs.formats.inspect_log:FORMAT",
        "claude-code": ".environments.logs.formats.claude_code:FORMAT",
        "verifiers": ".environments.logs.formats.verifiers_rollouts:FORMAT",
        "nemo-gym": ".environments.logs.formats.nemo_gym:FORMAT",
        "anthropic": ".environments.logs.formats.anthropic_messages:FORMAT",
        "openai": ".environments.logs.formats.openai_messages:FORMAT",
    },
)
"""Formats in the order in which a log is compared with them; third parties use the entry-point group."""
