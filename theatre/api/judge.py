"""The judge of the command line: which model, with which key, and at which address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol
from urllib.parse import urlsplit

from theatre.api.workspace import Workspace, utc_now
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Judge
from theatre.engine.scoring import TheatreScoringProvider
from theatre.judging import JudgeUnavailableError
from theatre.scorers import load_scorers

KEY_VARIABLE, ORIGIN_VARIABLE = "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"
DEFAULT_MODEL = "claude-sonnet-4-6"
AUTO, ANTHROPIC, LEXICAL_ONLY = "auto", "anthropic", "lexical"
_CALLS_A_PASS = 4
_PUBLIC = "https://api.anthropic.com"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class AskableModel(Judge, Protocol):
    """A judge that can be asked, before a commitment, how it may be asked."""

    async def probe_temperature(self, probe: Callable[[int | None], JsonObject]) -> int | None:
        """Return 0, or None where the model takes no temperature."""


@contextlib.asynccontextmanager
async def open_judge(
    template: JsonObject, workspace: Workspace, *, is_needed: bool
) -> AsyncIterator[Judge | None]:
    """Open the judge of a template while there are calls to make; None where it needs none.

    Raises JudgeUnavailableError without a key, and for an address that may not be sent one.
    """
    if not is_needed or not TheatreScoringProvider(template, load_scorers()).needs_judge:
        yield None
        return
    async with open_model(workspace) as judge:
        yield judge


@contextlib.asynccontextmanager
async def open_model(workspace: Workspace) -> AsyncIterator[AskableModel]:
    """Open a model by the key and the address in the environment.

    Raises JudgeUnavailableError without a key, and for an address that may not be sent one.
    """
    # Imported here: the SDK takes a second to import, which only runs with a judge should pay.
    from theatre.judging.anthropic_judge import open_anthropic_judge  # noqa: PLC0415  # see above

    key = workspace.environment.get(KEY_VARIABLE)
    if not key:
        raise JudgeUnavailableError(
            f"expected an API key in {KEY_VARIABLE} for the judge, got none; set it, or do "
            "without a model that judges"
        )
    origin = (workspace.environment.get(ORIGIN_VARIABLE) or _PUBLIC).rstrip("/")
    parts = urlsplit(origin)
    # The address is recorded with each answer in the evidence, so it must hold no secret.
    tells_more = parts.username is not None or parts.query or parts.fragment
    if tells_more or (parts.scheme != "https" and parts.hostname not in _LOOPBACK):
        raise JudgeUnavailableError(
            f"expected an https address without name and query in {ORIGIN_VARIABLE}, got "
            f"{'more' if tells_more else parts.scheme}"
        )
    async with open_anthropic_judge(key, origin, clock=utc_now, sleep=asyncio.sleep) as judge:
        yield judge
