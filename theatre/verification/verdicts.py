"""Verdicts on single claims and single changes, common to all scorings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedClaim:
    """A claim by its place in `key_claims`, from 0, and whether the diff bears it out."""

    place: int
    supported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredChanges:
    """How many important changes there are, 1 at least, and how many of them a summary names."""

    total: int
    surfaced: int
