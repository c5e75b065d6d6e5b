"""Logs: one line of JSON a message, on stderr, with secrets redacted everywhere."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

from theatre.engine.clock import format_rfc3339

_SECRETS = re.compile(
    r"""
      (?P<token>eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4})
    | (?P<key>echelon_(?:key|invite)_[A-Za-z0-9_-]+)
    | (?P<vendor>\b(?:sk|ghp|gho|ghs|ghr|github_pat|xox[abp]|AKIA)[-_]?[A-Za-z0-9_-]{12,})
    | (?P<pem>-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*-----|\Z))
    | (?P<bearer>(?<=\bbearer[ ])[^\s"',;]+)
    | (?P<basic>(?<=\bbasic[ ])[A-Za-z0-9+/=]{8,})
    | (?P<userinfo>(?<=://)[^\s/@"']+(?=@))
    | (?P<named>(?<=[?&]token=)[^\s&"']+|(?<=password=)[^\s&"']+)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_MAX_CHARACTERS = 16_000
_OWN = frozenset({"at", "level", "logger", "request_id", "route", "method", "user_id"})
"""Fields whose values are made by the service, or are from a fixed list."""


def redacted(text: str) -> str:
    """Return `text` with everything that has the form of a secret replaced."""
    return _SECRETS.sub(lambda found: f"[{found.lastgroup}]", text)


class JsonLines(logging.Formatter):
    """Writes a message, and what its `extra={"fields": {…}}` says, as one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; nothing in it was written by others without being escaped."""
        line: dict[str, object] = {
            "at": format_rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_MAX_CHARACTERS],
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-_MAX_CHARACTERS:]
        return json.dumps(
            {
                name: redacted(value) if isinstance(value, str) and name not in _OWN else value
                for name, value in line.items()
            },
            default=str,
        )


def log_as_json(level: str) -> None:
    """Have the whole process log lines of JSON to stderr from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if level != "debug":
        # It logs every job, and a periodic one runs every few seconds.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
