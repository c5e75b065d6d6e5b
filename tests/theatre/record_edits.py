"""Edits of invocation records, for tests that forge a bundle by one of them."""

from collections.abc import Callable
from typing import Any, cast

from tests.theatre.every_feature import HIDDEN
from tests.theatre.forged_bundle import Effort, Files, records_of, resealed, with_records

Record = dict[str, Any]
Edit = Callable[[Record], object]


def records_in(files: Files) -> dict[int, Record]:
    """Return the records of a bundle by episode, to be changed at will."""
    return cast("dict[int, Record]", records_of(files))


def forged(files: Files, seq: int, edit: Edit) -> Files:
    """Return the bundle in which `edit` changed the record of one episode, and all else follows."""
    records = records_in(files)
    edit(records[seq])
    return with_all(files, records)


def forged_everywhere(files: Files, edit: Edit) -> Files:
    """Return the bundle in which `edit` changed every record."""
    records = records_in(files)
    for record in records.values():
        edit(record)
    return with_all(files, records)


def with_all(files: Files, records: dict[int, Record]) -> Files:
    """Return the bundle with other records, its trail, sums and hashes made anew."""
    return resealed(with_records(files, records), Effort.CERTIFIED_HASH)


def of_record(*path: str | int, to: object) -> Edit:
    """Return the edit that puts a value at `path` of a record."""

    def edit(record: Record) -> None:
        place: Any = record
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return edit


def of_call(index: int, *path: str | int, to: object) -> Edit:
    """Return the edit that puts a value at `path` of one call of a record."""
    return of_record("calls", index, *path, to=to)


def of_answer(index: int, attempt: int, **members: object) -> Edit:
    """Return the edit that replaces members of one response."""

    def edit(record: Record) -> None:
        record["calls"][index]["attempts"][attempt]["response"].update(members)

    return edit


def each(*edits: Edit) -> Edit:
    """Return the edit that makes several."""

    def edit(record: Record) -> None:
        for one in edits:
            one(record)

    return edit


def raw_input(record: Record) -> None:
    """Send the text of `every_feature.CLEANED` as it is in the dataset, at every hop."""
    for call in record["calls"]:
        data = call["request"]["input_data"]
        (data["episode"] if call["hop"] else data).update(text=HIDDEN)
