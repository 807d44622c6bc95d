"""Log of the server: one line of JSON for each event, without secrets, or plain text."""

from __future__ import annotations

import json
import logging
import re
import sys
import time

from .access import request_id

FORMATS = ("text", "json")
_SECRET = re.compile(
    r"(?i)(bearer\s+|x-api-key['\"]?\s*[:=]\s*['\"]?|token['\"]?\s*[:=]\s*['\"]?|api[_-]key['\"]?\s*[:=]\s*['\"]?)([^\s'\",;}]+)"
)
_FIELDS = ("episode_id", "task_id", "call", "outcome", "end", "reward", "seconds")
"""Fields that a record may carry in ``extra``."""


_LOGGERS = ("etude", "uvicorn", "asyncio", "openenv", "sqlalchemy")


class TextLines(logging.Formatter):
    """Formats a record as text: level, message, traceback."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        super().__init__("%(levelname)s: %(message)s")
        self._secrets = tuple(secret for secret in secrets if secret)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        return self._clean(super().format(record))

    def _clean(self, text: str) -> str:
        """Return a text with ``***`` in place of keys and tokens."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _SECRET.sub(r"\1***", text)


class JsonLines(TextLines):
    """Formats a record as JSON: time (UTC), level, logger, message, request_id, the fields of ``extra``, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(record.getMessage()),
        }
        if name := request_id.get():
            line["request_id"] = name
        line |= {name: getattr(record, name) for name in _FIELDS if getattr(record, name, None) is not None}
        if record.exc_info:
            line["traceback"] = self._clean(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(log_format: str, secrets: tuple[str, ...] = ()) -> None:
    """Write the log of the server to stderr. In JSON, calls are logged too. Raises ValueError.

    As text, nothing is changed in a program that has set up its own log.
    """
    if log_format not in FORMATS:
        raise ValueError(f"the log format is {log_format!r}: give {' or '.join(FORMATS)}")
    is_json = log_format == "json"
    if not is_json and logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(secrets) if is_json else TextLines(secrets))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if is_json and name == "etude" else logging.WARNING)
