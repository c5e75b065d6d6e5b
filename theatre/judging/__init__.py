"""Language models as judges, whatever they judge: how one is asked, read and reached.

All of it is pure but `model_judge`, the one module that reaches a model.
"""

from __future__ import annotations

from theatre.engine.errors import TheatreError


class JudgeUnavailableError(TheatreError):
    """No judge can be asked before a setting is changed; what was recorded is kept."""

    code = "judge-unavailable"
