"""Rows of a table, JSON lines or CSV, as samples; columns say what is what."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import ParseError
from theatre.harness.samples import HarnessLog, HarnessLogError, HarnessSample, Measure, unit_score


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What the columns of a table are.

    `inputs` empty stands for all that are nothing else. `answers` has, by the expected column that
    it answers, the column with the answer. `episode_id` None numbers the rows.
    """

    inputs: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    answers: Mapping[str, str] | None = None
    scores: tuple[str, ...] = ()
    episode_id: str | None = None

    def named(self) -> set[str]:
        """Return the columns that are named, but for inputs."""
        ids = () if self.episode_id is None else (self.episode_id,)
        return {*self.expected, *(self.answers or {}).values(), *self.scores, *ids}


def read_rows(path: Path, columns: Columns, *, is_csv: bool, construct: str) -> HarnessLog:
    """Read a table; samples raise HarnessLogError, with the line, for what does not fit."""
    measures = (
        *(
            Measure(name=name, scorer="exact_match", params={"field": name, "expected": name})
            for name in columns.expected
            if name in (columns.answers or {})
        ),
        *(Measure(name=name) for name in columns.scores),
    )

    def samples() -> Iterator[HarnessSample]:
        rows = _csv_rows(path) if is_csv else _json_rows(path)
        return (_sample(row, number, columns, path) for number, row in rows)

    return HarnessLog(
        harness=None,
        construct=construct,
        declared={"construct": construct},
        measures=measures,
        samples=samples,
    )


def _csv_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield line number and row; every value is a text."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        reader = csv.DictReader(handle, strict=True)
        try:
            for row in reader:
                if None in row or None in row.values():
                    raise HarnessLogError(
                        f"expected as many values as columns in line {reader.line_num} of {path}"
                    )
                yield reader.line_num, dict(row)
        except (csv.Error, UnicodeDecodeError) as error:
            raise HarnessLogError(f"expected CSV in UTF-8 in {path}, got {error}") from error


def _json_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                yield number, parse_object(line)
            except ParseError as error:
                raise HarnessLogError(
                    f"expected a JSON object in line {number} of {path}, got {error}"
                ) from error


def _sample(row: JsonObject, number: int, columns: Columns, path: Path) -> HarnessSample:
    named = columns.named()
    missing = sorted((named | set(columns.inputs)) - row.keys())
    if missing:
        raise HarnessLogError(
            f"expected the columns {', '.join(missing)} in line {number} of {path}, got "
            f"{', '.join(sorted(row))}"
        )
    answers = columns.answers or {}
    return HarnessSample(
        episode_id=f"row-{number}" if columns.episode_id is None else str(row[columns.episode_id]),
        input_data={name: row[name] for name in columns.inputs or row if name not in named},
        expected_output={name: row[name] for name in columns.expected} or None,
        output_data={name: row[at] for name, at in answers.items()} if answers else None,
        scores={name: _number(row[name]) for name in columns.scores},
        error="the table has no column with answers",
    )


def _number(value: JsonValue) -> float | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return unit_score(value)
