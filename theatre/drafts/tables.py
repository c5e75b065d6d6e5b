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
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?")
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
        table = _read_folder(path)
    else:
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError as error:
            raise NotFoundError(
                f"expected data at {path}, got no such file: name a CSV file, a JSONL file or a "
                "folder with --data, or leave it out for 20 sample rows"
            ) from error
        except UnicodeDecodeError as error:
            raise TableError(f"expected UTF-8 in {path}, got other bytes: save it as UTF-8") from (
                error
            )
        is_csv = path.suffix.lower() in {".csv", ".tsv"}
        table = _read_csv(path, text) if is_csv else _read_lines(path, text)
    if not table.rows:
        raise TableError(f"expected rows in {path}, got none: put in one row for each question")
    return table


def _read_csv(path: Path, text: str) -> Table:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(text)
    lines = [line for line in csv.reader(io.StringIO(text), delimiter=delimiter) if line]
    columns = [name.strip() for name in lines[0]] if lines else []
    if "" in columns or len({*columns}) != len(columns):
        raise TableError(
            f"expected a first line of {path} with a different name for each column, got "
            f"{', '.join(map(repr, columns))}"
        )
    odd = [str(number) for number, line in enumerate(lines, 1) if len(line) != len(columns)]
    if odd:
        raise TableError(
            f"expected {len(columns)} values in each row of {path}, got another number in row "
            f"{', '.join(odd[:_SHOWN_ROWS])}: put texts with commas into quotation marks"
        )
    return Table(
        source=path,
        columns=tuple(columns),
        rows=tuple(_with_numbers(columns, lines[1:])),
    )


def _delimiter(text: str) -> str:
    header = text.partition("\n")[0]
    return ";" if header.count(";") > header.count(",") else ","


def _with_numbers(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterable[JsonObject]:
    """Yield rows; the values of a column are numbers where all of them are written as such."""
    numeric = [
        name not in ID_COLUMNS and all(_NUMBER.fullmatch(line[at].strip()) for line in lines)
        for at, name in enumerate(columns)
    ]
    for line in lines:
        yield {
            name: json.loads(line[at].strip()) if numeric[at] else line[at]
            for at, name in enumerate(columns)
        }


def _read_lines(path: Path, text: str) -> Table:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(parse_object(line.encode()))
        except ParseError as error:
            raise TableError(f"{path}, line {number}: {error}") from error
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


def _read_folder(folder: Path) -> Table:
    """Read a folder: one of labels with files in it, or of NAME.txt with NAME.answer.txt."""
    rows: list[JsonObject] = []
    answer = "label"
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        name = path.relative_to(folder).as_posix()
        if path.parent != folder:
            rows.append({"id": name, "text": _text(path), answer: path.parent.name})
        elif not path.stem.endswith(".answer"):
            found = folder / f"{path.stem}.answer.txt"
            if not found.is_file():
                raise TableError(
                    f"expected the answer to {path} in {found.name} next to it, got no such file: "
                    "or put files into one folder for each label"
                )
            answer = "answer"
            rows.append({"id": name, "text": _text(path), answer: _text(found).strip()})
    return Table(source=folder, columns=("id", "text", answer), rows=tuple(rows), answers=(answer,))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"expected UTF-8 in {path}, got other bytes") from error


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
        id_column = next((name for name in ID_COLUMNS if name in table.columns), None)
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
