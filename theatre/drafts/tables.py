"""Ground truth out of what people have: a CSV table, JSON Lines, or a folder of files.

Ids are stable: a column of ids, else a hash of the row's input. So a row keeps its id where others
are added, taken out or sorted.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from theatre.drafts.compilation import nearest
from theatre.drafts.errors import TableError
from theatre.drafts.folders import read_folder
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_sha256,
    parse_object,
)
from theatre.engine.errors import NotFoundError, ParseError

ID_COLUMNS = ("episode_id", "id")
ANSWER_COLUMNS = ("answer", "label", "expected", "target", "output")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_EXACT_DIGITS = 15
"""What a double keeps of any decimal number."""
_SHOWN_ROWS = 5
_ID_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with the same columns. `answers` are the columns that the data themselves call so."""

    source: Path
    columns: tuple[str, ...]
    rows: tuple[JsonObject, ...]
    answers: tuple[str, ...] = ()
    episodes: tuple[JsonObject, ...] | None = None
    """The rows as they are, where the file has the form of ground truth already."""


def read_table(path: Path) -> Table:
    """Read a CSV file, a JSON Lines file or a folder.

    Raises NotFoundError where there is none, and TableError for one without rows or of another
    form, naming the row.
    """
    if path.is_dir():
        answer, files = read_folder(path)
        columns = ("id", "text", answer)
        table = Table(source=path, columns=columns, rows=tuple(files), answers=(answer,))
    else:
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError as error:
            raise NotFoundError(
                f"expected data at {path}, got no such file: name a CSV file, a JSONL file or a "
                "folder with --data, or leave it out for 20 sample rows"
            ) from error
        except UnicodeDecodeError as error:
            raise TableError(
                f"expected UTF-8 in {path}, got other bytes: save it as CSV in UTF-8"
            ) from error
        is_csv = path.suffix.lower() in {".csv", ".tsv"}
        table = _read_csv(path, text) if is_csv else _read_lines(path, text)
    if not table.rows:
        raise TableError(f"expected rows in {path}, got none: put in one row for each question")
    return table


def _read_csv(path: Path, text: str) -> Table:
    # strict: else a quotation mark that is never closed swallows all rows that follow.
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(path, text), strict=True)
    try:
        # Tables of offices end in rows of nothing but separators.
        lines = [(reader.line_num, line) for line in reader if any(map(str.strip, line))]
    except csv.Error as error:
        raise TableError(
            f"expected CSV in {path}, got {error} in line {reader.line_num}: write a quotation "
            'mark in a text as "" and the text between quotation marks, or use JSON Lines'
        ) from error
    columns = [name.strip() for name in lines[0][1]] if lines else []
    if "" in columns or len({*columns}) != len(columns):
        raise TableError(
            f"expected a first line of {path} with a different name for each column, got "
            f"{', '.join(map(repr, columns))}"
        )
    odd = [str(number) for number, line in lines if len(line) != len(columns)]
    if odd:
        raise TableError(
            f"expected {len(columns)} values in each row of {path}, got another number in line "
            f"{', '.join(odd[:_SHOWN_ROWS])}: put texts with commas into quotation marks"
        )
    rows = tuple(_with_numbers(columns, [line for _, line in lines[1:]]))
    return Table(source=path, columns=tuple(columns), rows=rows)


def _delimiter(path: Path, text: str) -> str:
    header = text.partition("\n")[0]
    return "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=header.count)


def _with_numbers(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterable[JsonObject]:
    """Yield rows; the values of a column are numbers where that loses nothing of any of them."""
    numeric = [
        name.lower() not in ID_COLUMNS and _are_numbers([line[at].strip() for line in lines])
        for at, name in enumerate(columns)
    ]
    for line in lines:
        yield {
            name: json.loads(line[at].strip()) if numeric[at] else line[at]
            for at, name in enumerate(columns)
        }


def _are_numbers(texts: Sequence[str]) -> bool:
    """Tell whether all texts are numbers: 1.1 and 1.10 are versions, 0.10 and 2.50 are prices."""
    found = [_NUMBER.fullmatch(text) for text in texts]
    parts = [(one[1], one[2] or "") for one in found if one]
    if len(parts) < len(texts) or any(len(a + b) > _EXACT_DIGITS for a, b in parts):
        return False
    decimals = [after for _, after in parts]
    return len({*map(len, decimals)}) == 1 or not any(one.endswith("0") for one in decimals)


def _read_lines(path: Path, text: str) -> Table:
    rows = []
    # Not splitlines(): JSON has U+2028 and others as they are within a text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(parse_object(line.encode()))
        except ParseError as error:
            raise TableError(
                f"{path}, line {number}: {error}: write one JSON object in each line"
            ) from error
    if not rows or not all("input_data" in row for row in rows):
        columns = dict.fromkeys(name for row in rows for name in row)
        return Table(source=path, columns=tuple(columns), rows=tuple(rows))
    expected = [row.get("expected_output") for row in rows]
    odd = [str(at) for at, one in enumerate(expected, 1) if not isinstance(one, dict)]
    if odd:
        raise TableError(
            f"expected expected_output as an object in {path}, got another value in row "
            f'{", ".join(odd[:_SHOWN_ROWS])}: write {{"answer": "yes"}} in place of "yes"'
        )
    answers = dict.fromkeys(name for one in expected for name in cast("JsonObject", one))
    return Table(
        source=path,
        columns=tuple(answers),
        rows=tuple(rows),
        answers=tuple(answers),
        episodes=tuple(rows),
    )


# From rows to episodes.


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """Episodes as they are written, the answers' members, and the most frequent answer."""

    lines: bytes
    count: int
    answers: tuple[str, ...]
    frequent: JsonObject


def ground_truth(
    table: Table, *, answers: Sequence[str] = (), inputs: Sequence[str] = ()
) -> GroundTruth:
    """Return episodes for a table: `answers` and `inputs` are columns.

    Left out, the answer is the only column of a usual name, and inputs are all the others. Raises
    TableError for a column that is not there, an answer that is empty, and an id that comes twice.
    """
    chosen = tuple(answers) or _usual_answers(table)
    _refuse_unknown(table, [*chosen, *inputs])
    if table.episodes is not None:
        episodes = table.episodes
    else:
        id_column = _id_column(table.columns)
        others = [name for name in table.columns if name not in {*chosen, id_column}]
        episodes = tuple(_episodes(table, chosen, list(inputs) or others, id_column))
    _refuse_repeated(table, episodes)
    expected = [cast("JsonObject", one["expected_output"]) for one in episodes]
    kept = [{name: one[name] for name in chosen if name in one} for one in expected]
    frequent = Counter(canonical_bytes(one) for one in kept).most_common(1)[0][0]
    written = (json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in episodes)
    return GroundTruth(
        lines=b"".join(written),
        count=len(episodes),
        answers=chosen,
        frequent=parse_object(frequent),
    )


def _usual_answers(table: Table) -> tuple[str, ...]:
    usual = table.answers or tuple(name for name in ANSWER_COLUMNS if name in table.columns)
    if not usual or (len(usual) > 1 and not table.answers):
        raise TableError(
            f"expected to know which column of {table.source} is the answer: name it with "
            f"--answer, one of {', '.join(table.columns)}"
        )
    return usual


def _refuse_unknown(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.columns:
            raise TableError(
                f"expected a column of {table.source}, got {name!r}"
                f"{nearest(name, list(table.columns))}; there are {', '.join(table.columns)}"
            )


def _episodes(
    table: Table, answers: Sequence[str], inputs: Sequence[str], id_column: str | None
) -> Iterable[JsonObject]:
    taken: Counter[str] = Counter()
    empty: list[str] = []
    for number, row in enumerate(table.rows, start=1):
        if any(row.get(name) in (None, "") for name in answers):
            empty.append(str(number))
            continue
        asked = {name: row[name] for name in inputs if name in row}
        episode_id = _row_id(row.get(id_column) if id_column else None, asked)
        if not id_column:
            taken[episode_id] += 1
            # Equal inputs have equal hashes; their order among themselves tells them apart.
            repeat = taken[episode_id]
            episode_id += f"_{repeat}" if repeat > 1 else ""
        yield {
            "episode_id": episode_id,
            "input_data": asked,
            "expected_output": {name: row[name] for name in answers},
        }
    if empty:
        raise TableError(
            f"expected an answer in each row of {table.source}, got none in row "
            f"{', '.join(empty[:_SHOWN_ROWS])}: fill it in or remove the row"
        )


def _id_column(columns: Sequence[str]) -> str | None:
    """Return the column of ids, in capitals too: spreadsheets write ID."""
    named = {name.lower(): name for name in reversed(columns)}
    return next((named[name] for name in ID_COLUMNS if name in named), None)


def _row_id(stated: JsonValue, asked: Mapping[str, JsonValue]) -> str:
    if stated is not None and stated != "":
        return str(stated)
    return f"row_{canonical_sha256({**asked})[:_ID_DIGITS]}"


def _refuse_repeated(table: Table, episodes: Sequence[JsonObject]) -> None:
    seen = Counter(str(one.get("episode_id")) for one in episodes)
    twice = [name for name, count in seen.items() if count > 1]
    if twice:
        raise TableError(
            f"expected each id once in {table.source}, got {', '.join(twice[:_SHOWN_ROWS])} more "
            "than once: give each row an id of its own, or take the column of ids out"
        )
