"""The errors of asking a model: one class for each decision a caller can take."""

from __future__ import annotations

from theatre.engine.errors import TheatreError


class JudgeUnavailableError(TheatreError):
    """No judge can be asked before a setting is changed; what was recorded is kept."""

    code = "judge-unavailable"
