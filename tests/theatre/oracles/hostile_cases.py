"""The table of the hostile construct, `fixtures/constructs/hostile/expectations.toml`, read."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Literal

from pydantic import BaseModel, ConfigDict

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    Attempt,
    OracleInvocationRequest,
    OracleInvocationResponse,
)
from theatre.oracles.limited_process import ProcessLimits

HOSTILE = Path(__file__).parents[3] / "fixtures" / "constructs" / "hostile"

Transport = Literal["stdio", "http"]
# A text, or pieces of it, each with the number of times it comes.
Text = str | tuple[tuple[str, int], ...]


class Case(BaseModel):
    """One entry of the table; the file explains its members."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: str
    on: tuple[Transport, ...]
    does: str
    input: dict[str, int | float] = {}
    timeout_seconds: float = 30.0
    calls: int = 1
    status: InvocationStatus
    reason: str | None = None
    attempts: int
    detail: str | None = None
    detail_begins: str | None = None
    raw: Text | None = None
    stderr: Text | None = None
    stderr_ends: str | None = None
    reports: tuple[str, str] | None = None
    next_stderr_begins: str | None = None

    def input_data(self, answer: JsonObject) -> JsonObject:
        """Return what the construct is asked; `answer` is what it is to say on success."""
        return {"mode": self.mode, **self.input, "answer": answer}

    def expected(
        self, request: OracleInvocationRequest, seen: Attempt, *, origin: str, responded_at: str
    ) -> Attempt:
        """Return the attempt that the table demands.

        Where it demands only how a text begins or ends, the text is the one of `seen`, if that
        begins or ends so.
        """
        filled = _Filler(request, origin)
        succeeded = self.status is InvocationStatus.SUCCESS
        reports = self.reports or ("$construct_id", "$construct_version")
        read = self.reason is None or self.reports is not None
        response = OracleInvocationResponse(
            invocation_id=request.invocation_id,
            construct_id=filled.text(reports[0]) if read else None,
            construct_version=filled.text(reports[1]) if read else None,
            output_data=request.input_data["answer"] if succeeded else None,
            latency_ms=0,
            status=self.status,
            error_detail=filled.text(self.detail),
            responded_at=responded_at,
        )
        if self.detail_begins is not None:
            begins = filled.text(self.detail_begins) or ""
            detail = seen.response.error_detail or ""
            words = detail if detail.startswith(begins) else f"{begins}…"
            response = replace(response, error_detail=words)
        attempt = Attempt(response=response, reason=self.reason, raw=filled.text(self.raw))
        return replace(attempt, stderr=self._stderr(filled, seen))

    def _stderr(self, filled: _Filler, seen: Attempt) -> str | None:
        if self.stderr_ends is None:
            return filled.text(self.stderr)
        stderr = seen.stderr or ""
        return stderr if stderr.endswith(self.stderr_ends) else f"…{self.stderr_ends}"


class Table(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limits: dict[str, int]
    case: tuple[Case, ...]

    @property
    def process_limits(self) -> ProcessLimits:
        """Return the limits under which the cases of a child process run."""
        return ProcessLimits(**self.limits)

    def on(self, transport: Transport) -> list[Case]:
        """Return the cases of one transport, in order."""
        return [case for case in self.case if transport in case.on]


class _Filler:
    """Puts a call's own values into texts of the table."""

    def __init__(self, request: OracleInvocationRequest, origin: str) -> None:
        answer = json.dumps(request.input_data["answer"], separators=(",", ":"))
        self._values = {**request.as_document(), "answer": answer, "origin": origin}

    def text(self, text: Text | None) -> str | None:
        if text is None:
            return None
        pieces = ((text, 1),) if isinstance(text, str) else text
        filled = [Template(piece).substitute(self._values) * times for piece, times in pieces]
        return "".join(filled)


def read_table() -> Table:
    """Return the table as it stands in the repository."""
    text = (HOSTILE / "expectations.toml").read_text(encoding="utf-8")
    return Table.model_validate(tomllib.loads(text))
