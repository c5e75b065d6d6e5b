"""The errors of this room: `TheatreError` is the base, as of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from theatre.engine.errors import TheatreError

if TYPE_CHECKING:
    # Who catches an error need not wait for what makes reports.
    from theatre.engine.bundle_check import CheckReport

Requirement: TypeAlias = Literal["valid", "logged"]
_ENOUGH: Final[dict[Requirement, tuple[str, ...]]] = {
    "valid": ("valid", "valid, logged"),
    "logged": ("valid, logged",),
}


class UsageError(TheatreError):
    """An argument does not fit, or not with the others."""

    code = "usage"


class InterruptedRunError(TheatreError):
    """A run was stopped from outside; the recorded answers are kept."""

    code = "interrupted"

    def __init__(self, theatre_id: str, recorded: int) -> None:
        super().__init__(
            f"stopped with {recorded} episodes recorded; go on with: "
            f"echelon theatre run {theatre_id}"
        )


class VerdictError(TheatreError):
    """A bundle did not get the verdict that was required; `report` says why."""

    code = "verdict-not-reached"

    def __init__(self, report: CheckReport, required: Requirement) -> None:
        failed = "".join(
            f"\n  {line.id}: expected {line.expected}, got {line.actual}"
            for line in (*report.failed, *report.unavailable)
        )
        super().__init__(
            f"expected the verdict {' or '.join(map(repr, _ENOUGH[required]))}, got "
            f"{report.verdict.value!r} ({report.because}){failed}"
        )
        self.report = report


def require_verdict(report: CheckReport, required: Requirement) -> None:
    """Raise VerdictError where the verdict of a report is a lesser one."""
    if required not in _ENOUGH:
        raise UsageError(f"expected {' or '.join(_ENOUGH)} to be required, got {required!r}")
    if report.verdict.value not in _ENOUGH[required]:
        raise VerdictError(report, required)
