"""Language models as judges, whatever they judge: how one is asked, read and reached.

All of it is pure but `model_judge`, the one module that reaches a model.
"""

from typing import Final
from urllib.parse import urlsplit

from theatre.engine.errors import TheatreError

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class JudgeUnavailableError(TheatreError):
    """No judge can be asked before a setting is changed; what was recorded is kept."""

    code = "judge-unavailable"


def is_loopback(origin: str) -> bool:
    """Return whether an address is on this machine: a server there may want no key."""
    return urlsplit(origin).hostname in _LOOPBACK


def origin_fault(origin: str) -> str | None:
    """Return what is wrong with the address of a provider; None for one that may have a key.

    The address is recorded with each answer in the evidence, so it must hold no secret.
    """
    parts = urlsplit(origin)
    if parts.username is not None or parts.query or parts.fragment:
        return "more"
    if parts.hostname is None or (parts.scheme != "https" and not is_loopback(origin)):
        return parts.scheme or "none"
    return None
