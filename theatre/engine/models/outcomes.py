"""How answers end, what episodes count as, and what is measured in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

ExecutionPath = Literal["replay", "market"]


class InvocationStatus(StrEnum):
    """How a construct's answer ended; lower case on the wire (docs/contract/construct.md)."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    ERROR = "error"
    REFUSED = "refused"


class EpisodeOutcome(StrEnum):
    """What an episode counts as (docs/contract/scoring.md §1)."""

    SCORED = "scored"
    MISSING = "missing"
    EXCLUDED = "excluded"
    UNSCORED = "unscored"
    NOT_RUN = "not_run"


class Verdict(StrEnum):
    """Why a criterion has no score in an episode. Never a number: a gap is not a zero."""

    MISSING = "missing"
    EXCLUDED = "excluded"
    NOT_APPLICABLE = "not_applicable"
    DECLINED = "declined"
    UNSCORED = "unscored"
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True)
class Scored:
    """A score in billionths: 0 … 1,000,000,000. Nine decimal places, exact."""

    nano: int


CriterionResult: TypeAlias = Scored | Verdict


class TheatreCriteria(BaseModel):
    """What a theatre measures, in committed order; `weights` empty means equal weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    criteria_ids: tuple[str, ...]
    criteria_human: str = ""
    weights: dict[str, float] = {}
