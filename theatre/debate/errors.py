"""The errors of `theatre.debate`: one class for each decision that a caller can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from theatre.engine.errors import TheatreError

if TYPE_CHECKING:
    from theatre.debate.models import Finding


class DebateError(TheatreError):
    """Base of every error that this package raises on purpose."""

    code = "debate-error"


class InvalidDebateError(DebateError):
    """Bytes are not a debate artefact; `findings` lists every error, not only the first."""

    code = "debate-invalid"

    def __init__(self, findings: Sequence[Finding]) -> None:
        first = findings[0]
        super().__init__(
            f"expected a debate artefact, got {len(findings)} error(s), the first "
            f"{first.code} at {first.pointer or 'the root'}: {first.detail}"
        )
        self.findings = tuple(findings)


class DebateLogError(DebateError):
    """An event log does not verify, or an event does not fit behind the ones before."""

    code = "debate-log-invalid"


class DebateRunError(DebateError):
    """A debater gave no answer that a turn can be made of; the run ends here."""

    code = "debate-run-failed"


class SweepError(DebateError):
    """A sweep plan is not as specified, or its folder holds another sweep."""

    code = "sweep-invalid"


class JudgementRecordError(DebateError):
    """A recorded judgement is of something else, or does not come to what it says."""

    code = "judgement-record-invalid"
