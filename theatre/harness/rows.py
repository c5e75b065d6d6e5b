"""Rows of a table, JSON lines or CSV, as samples; columns say what is what."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from theatre.engine.canonical_json import JsonObject
from theatre.files.tables import csv_rows, json_rows
from theatre.harness.samples import (
    HarnessLog,
    HarnessLogError,
    HarnessSample,
    Measure,
    criterion_name,
    read_score,
)


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
    named = {at: criterion_name(at) for at in (*columns.expected, *columns.scores)}
    if len({*named.values()}) < len(named):
        raise HarnessLogError(
            f"expected columns with different names as criteria, got {', '.join(named.values())} "
            f"for {', '.join(named)}: rename one in {path}"
        )
    answered = [named[at] for at in columns.expected if at in (columns.answers or {})]
    measures = (
        *(
            Measure(
                name=name,
                scorer="exact_match",
                params={"field": name, "expected": name},
                is_ours=True,
            )
            for name in answered
        ),
        *(Measure(name=named[at]) for at in columns.scores),
    )

    def samples() -> Iterator[HarnessSample]:
        rows = csv_rows(path) if is_csv else json_rows(path)
        return (_sample(row, number, columns, path) for number, row in rows)

    return HarnessLog(
        harness=None,
        construct=construct,
        declared={"construct": construct},
        measures=measures,
        samples=samples,
    )


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
        expected_output={criterion_name(at): row[at] for at in columns.expected} or None,
        output_data={criterion_name(one): row[at] for one, at in answers.items()} or None,
        scores={
            criterion_name(at): read_score(row[at], f"{at} in line {number} of {path}")
            for at in columns.scores
        },
        error="the table has no column with answers",
    )
