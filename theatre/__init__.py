"""Committed questions to AI constructs, scored, with the evidence to recompute the scores.

What is in `__all__` is the Python API, `docs/python.md`. A name is imported when it is first used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from theatre.api.declared_scorers import scorer
    from theatre.api.errors import InterruptedRunError, UsageError, VerdictError
    from theatre.api.functions import check, pin, run, validate
    from theatre.api.results import Certificate, Episode, Run, Score, Validation
    from theatre.construct_kit import Refusal, construct
    from theatre.engine.bundle_check import CheckReport
    from theatre.engine.errors import InvalidTemplateError, NotFoundError, TheatreError
    from theatre.engine.models import ScoringCase

_PLACES = {
    "Certificate": "theatre.api.results",
    "CheckReport": "theatre.engine.bundle_check",
    "Episode": "theatre.api.results",
    "InterruptedRunError": "theatre.api.errors",
    "InvalidTemplateError": "theatre.engine.errors",
    "NotFoundError": "theatre.engine.errors",
    "Refusal": "theatre.construct_kit",
    "Run": "theatre.api.results",
    "Score": "theatre.api.results",
    "ScoringCase": "theatre.engine.models",
    "TheatreError": "theatre.engine.errors",
    "UsageError": "theatre.api.errors",
    "Validation": "theatre.api.results",
    "VerdictError": "theatre.api.errors",
    "check": "theatre.api.functions",
    "construct": "theatre.construct_kit",
    "pin": "theatre.api.functions",
    "run": "theatre.api.functions",
    "scorer": "theatre.api.declared_scorers",
    "validate": "theatre.api.functions",
}

__all__ = [
    "Certificate",
    "CheckReport",
    "Episode",
    "InterruptedRunError",
    "InvalidTemplateError",
    "NotFoundError",
    "Refusal",
    "Run",
    "Score",
    "ScoringCase",
    "TheatreError",
    "UsageError",
    "Validation",
    "VerdictError",
    "check",
    "construct",
    "pin",
    "run",
    "scorer",
    "validate",
]


def __getattr__(name: str) -> object:
    """Import a public name; its module stays unloaded until then, so that others cost nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module 'theatre' has no attribute {name!r}")
    value = getattr(_import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
