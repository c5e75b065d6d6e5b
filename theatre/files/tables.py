"""Rows of a table that people have, CSV or JSON Lines: as written, or refused with the line."""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from json import JSONDecodeError
from pathlib import Path
from typing import TextIO

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import DatasetError, ParseError

_SHOWN_ROWS = 5
_SAVE = 'save it as UTF-8 (Excel: "CSV UTF-8")'
_SEPARATOR = re.compile(r"sep=(.)\r?\n?")
"""The first line that Excel writes and reads, and that is no row."""


class TableError(DatasetError):
    """Data that people have cannot be made into ground truth."""

    code = "data-unreadable"


def csv_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield line number and row; every value is a text. One row is in memory at a time.

    Columns are parted by `,`, `;` or a tab, in a `.tsv` by tabs; lines end in any way. Rows of
    nothing but separators, in which tables of offices end, are none. TableError for what cannot
    be read as it was meant.
    """
    with path.open(encoding="utf-8-sig", newline="") as handle:
        number, odd = 0, []
        try:
            skipped, first, delimiter = _beginning(handle, path)
            # strict: else a quotation mark that is never closed swallows all rows that follow.
            lines = csv.reader(chain([first], handle), delimiter=delimiter, strict=True)
            columns: list[str] = []
            for row in lines:
                number = lines.line_num + skipped
                if not any(map(str.strip, row)):
                    continue
                if not columns:
                    columns = _columns(row, path)
                elif len(row) != len(columns):
                    odd.append(str(number))
                elif not odd:
                    yield number, dict(zip(columns, row, strict=True))
        except UnicodeDecodeError as error:
            raise TableError(f"expected CSV in UTF-8 in {path}, got {error}: {_SAVE}") from error
        except csv.Error as error:
            raise TableError(
                f"expected CSV in {path}, got {error} after line {number}: write a "
                'quotation mark in a text as "" and the text between quotation marks, or use JSON '
                "Lines"
            ) from error
    if odd:
        raise TableError(
            f"expected {len(columns)} values in each row of {path}, got another number in line "
            f"{some_of(odd)}: put texts with commas into quotation marks, with no blank before them"
        )


def some_of(names: Sequence[str]) -> str:
    """Return the first of many, and how many more there are."""
    more = len(names) - _SHOWN_ROWS
    return ", ".join(names[:_SHOWN_ROWS]) + (f" and {more} more" if more > 0 else "")


def _beginning(handle: TextIO, path: Path) -> tuple[int, str, str]:
    """Return how many lines are no row, the line with the names, and what parts columns."""
    first = handle.readline()
    if said := _SEPARATOR.fullmatch(first):
        return 1, handle.readline(), said[1]
    if path.suffix.lower() == ".tsv":
        return 0, first, "\t"
    # A separator within quotation marks parts nothing.
    return 0, first, max(",;\t", key=re.sub('"[^"]*"', "", first).count)


def _columns(row: Sequence[str], path: Path) -> list[str]:
    columns = [name.strip() for name in row]
    if len({*columns}) < len(columns):
        raise TableError(
            f"expected a different name for each column of {path}, got "
            f"{', '.join(map(repr, columns))}"
        )
    return columns


def json_rows(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield line number and object of JSON Lines; TableError, with the line, for anything else."""
    with path.open("rb") as handle:
        # Lines of bytes: JSON has U+2028 and others as they are within a text.
        for number, line in enumerate(handle, start=1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not text.strip():
                continue
            try:
                yield number, parse_object(text)
            except ParseError as error:
                advice = ""
                if isinstance(error.__cause__, UnicodeDecodeError):
                    advice = f"; {_SAVE}"
                elif isinstance(error.__cause__, JSONDecodeError) or text.lstrip()[:1] != b"{":
                    begins = text.lstrip()[:1]
                    one = "each of the list" if begins == b"[" else "one"
                    table = "" if begins in b"[{" else ", or call a table NAME.csv"
                    advice = f"; write {one} into a line of its own{table}"
                raise TableError(
                    f"expected a JSON object in line {number} of {path}: {error}{advice}"
                ) from error
