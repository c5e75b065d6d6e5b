"""The table of adversaries: what each tries, how it ends, and which rule ensures that."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from theatre.engine.schema_registry import resource_root

TABLE = "adversaries.toml"


class Kind(StrEnum):
    """The kinds of adversaries."""

    ANSWERS = "answers"
    """Answers in the construct's place; works against any template."""
    TASK = "task"
    """Answers in the construct's place; made for one family of tasks."""
    READS = "reads"
    """A program that looks for the answers where it should not see them."""
    RECORD = "record"
    """Changes what is recorded or published, or says more than there was."""


class Adversary(BaseModel):
    """One row. `program` is a file in the table's folder, `mode` its argument.

    `tested` names the tests that carry it out, where the table's own do not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Kind
    does: str
    ends: str
    guard: str
    rule: str
    families: tuple[str, ...] = ()
    program: str | None = None
    mode: str | None = None
    tested: str | None = None


class PaidCriteria(BaseModel):
    """Criteria of a shipped template on which some adversaries reach the construct, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str
    criteria: tuple[str, ...]
    to: tuple[str, ...]
    why: str


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    adversary: Annotated[tuple[Adversary, ...], Field(min_length=1)]
    paid: tuple[PaidCriteria, ...] = ()


def programs_folder() -> Path:
    """Return the folder of the programs and their table."""
    return resource_root() / "fixtures" / "adversaries"


def adversaries() -> tuple[Adversary, ...]:
    """Return the rows in order."""
    return _table().adversary


def paid() -> tuple[PaidCriteria, ...]:
    """Return the criteria of shipped templates on which adversaries still score."""
    return _table().paid


def generic_adversaries() -> tuple[Adversary, ...]:
    """Return those that can take any construct's place."""
    return tuple(one for one in adversaries() if one.kind is Kind.ANSWERS)


def _table() -> _Table:
    return _Table.model_validate(
        tomllib.loads((programs_folder() / TABLE).read_text(encoding="utf-8"))
    )
