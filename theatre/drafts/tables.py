"""Ground truth out of what people have: a CSV table, JSON Lines, or a folder of files.

Ids are stable: a column of ids, else a hash of the row's input. So a row keeps its id where others
are added, taken out or sorted.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from theatre.drafts.compilation import nearest
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_sha256,
    parse_object,
)
from theatre.engine.errors import NotFoundError
from theatre.files.tables import TableError, csv_rows, json_rows, some_of

_ANSWER = ".answer"


def read_folder(folder: Path) -> tuple[str, list[JsonObject]]:
    """Read LABEL/FILE, or NAME.txt with NAME.answer.txt; return the answer's name, and rows.

    Raises TableError for a mixture of both, a question without an answer or the reverse, and a
    name or text that is not UTF-8.
    """
    found = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    # .git, .ipynb_checkpoints and what editors keep are no data.
    names = [name for name in found if not any(part.startswith(".") for part in name.parts)]
    for name in names:
        _refuse_unreadable(folder, name)
    depths = {len(name.parts) for name in names}
    if len(depths) > 1:
        high, *_, deep = sorted(names, key=lambda name: len(name.parts))
        raise TableError(
            f"expected one folder for each label in {folder} with nothing but files in it, or "
            f"NAME.txt with NAME.answer.txt and no folders, got {high} next to {deep}: move or "
            "remove one of them"
        )
    if depths <= {1}:
        return "answer", list(_answered(folder, names))
    return "label", [
        {"id": name.as_posix(), "text": _text(folder / name), "label": name.parent.name}
        for name in names
    ]


def _refuse_unreadable(folder: Path, name: Path) -> None:
    try:
        str(name).encode()
    except UnicodeEncodeError as error:
        raise TableError(
            f"expected names in UTF-8 in {folder}, got {str(name)!a}: rename it"
        ) from error


def _answered(folder: Path, names: Sequence[Path]) -> Iterable[JsonObject]:
    questions = [name for name in names if not name.stem.endswith(_ANSWER)]
    answers = {Path(f"{name.stem}{_ANSWER}.txt"): name for name in questions}
    there = set(names)
    for name in sorted(there - set(questions)):
        if name not in answers:
            raise TableError(
                f"expected a question to {folder / name} next to it, got no such file: an answer "
                f"to NAME.txt is in NAME{_ANSWER}.txt"
            )
    for answer, name in answers.items():
        if answer not in there:
            raise TableError(
                f"expected the answer to {folder / name} in {answer} next to it, got no such file: "
                "or put files into one folder for each label"
            )
        said = _text(folder / answer).strip()
        yield {"id": name.as_posix(), "text": _text(folder / name), "answer": said}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"expected UTF-8 in {path}, got other bytes: save it as UTF-8") from error


ID_COLUMNS = ("episode_id", "id")
ANSWER_COLUMNS = ("answer", "label", "expected", "target", "output")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_EXACT_DIGITS = 15
"""What a double keeps of any decimal number."""
_ID_DIGITS = 12


class Table(NamedTuple):
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
        if not path.exists():
            raise NotFoundError(
                f"expected data at {path}, got no such file: name a CSV file, a JSONL file or a "
                "folder with --data, or leave it out for 20 sample rows"
            )
        is_csv = path.suffix.lower() in {".csv", ".tsv"}
        table = _read_csv(path) if is_csv else _read_lines(path)
    if not table.rows:
        raise TableError(f"expected rows in {path}, got none: put in one row for each question")
    return table


def _read_csv(path: Path) -> Table:
    rows = [row for _, row in csv_rows(path)]
    columns = tuple(rows[0]) if rows else ()
    if "" in columns:
        raise TableError(
            f"expected a name for each column in the first line of {path}, got "
            f"{', '.join(map(repr, columns))}: name it, or take the column out"
        )
    return Table(source=path, columns=columns, rows=tuple(_with_numbers(columns, rows)))


def _with_numbers(columns: Sequence[str], rows: Sequence[JsonObject]) -> Iterable[JsonObject]:
    """Yield rows; the values of a column are numbers where that loses nothing of any of them."""
    numeric = {
        name
        for name in columns
        if name.lower() not in ID_COLUMNS and _are_numbers([str(row[name]).strip() for row in rows])
    }
    for row in rows:
        yield {
            name: json.loads(str(text).strip()) if name in numeric else text
            for name, text in row.items()
        }


def _are_numbers(texts: Sequence[str]) -> bool:
    """Tell whether all texts are numbers: 1.1 and 1.10 are versions, 0.10 and 2.50 are prices."""
    found = [_NUMBER.fullmatch(text) for text in texts]
    parts = [(one[1], one[2] or "") for one in found if one]
    if len(parts) < len(texts) or any(len(a + b) > _EXACT_DIGITS for a, b in parts):
        return False
    decimals = [after for _, after in parts]
    return len({*map(len, decimals)}) == 1 or not any(one.endswith("0") for one in decimals)


def _read_lines(path: Path) -> Table:
    rows = [row for _, row in json_rows(path)]
    if not rows or not all("input_data" in row for row in rows):
        columns = dict.fromkeys(name for row in rows for name in row)
        return Table(source=path, columns=tuple(columns), rows=tuple(rows))
    expected = [row.get("expected_output") for row in rows]
    odd = [str(at) for at, one in enumerate(expected, 1) if not isinstance(one, dict)]
    if odd:
        raise TableError(
            f"expected expected_output as an object in {path}, got another value in row "
            f'{some_of(odd)}: write {{"answer": "yes"}} in place of "yes"'
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
    if len(chosen) == 1 and re.search("[.:]", chosen[0]):
        raise TableError(
            f"expected an answer's column without `.` and `:`, which part the steps of a path, got "
            f"{chosen[0]!r}: give that column of {table.source} another name"
        )
    if table.episodes is not None:
        episodes = table.episodes
    else:
        id_column = _id_column(table.columns)
        others = [name for name in table.columns if name not in {*chosen, id_column}]
        if not (inputs or others):
            raise TableError(
                f"expected a column to ask in {table.source} next to id and answer, got "
                f"{', '.join(table.columns)}: each question would be the same"
            )
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
        if any(_is_blank(row.get(name)) for name in answers):
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
            f"expected an answer in each row of {table.source}, got none in row {some_of(empty)} "
            "of the data: fill it in or remove the row"
        )


def _is_blank(answer: JsonValue) -> bool:
    return answer is None or (isinstance(answer, str) and not answer.strip())


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
            f"expected each id once in {table.source}, got {some_of(twice)} more "
            "than once: give each row an id of its own, or take the column of ids out"
        )
