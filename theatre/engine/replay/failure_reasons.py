"""Why a run has no certificate: how its episodes ended, and what went wrong most often.

Read off the audit trail, which has an entry for each failure and each refusal. The outcome names
codes and counts alone; an example of each is found by its entry, for the owner.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import clean_detail
from theatre.engine.replay.events import FAILED, RECORDED, REFUSED
from theatre.engine.replay.journal import RunJournal
from theatre.engine.replay.records import answering_attempt

UNSCORED = "unscored"
"""The construct answered, and no scorer gave a score: data or scorers are at fault."""

_MOST = 3
_SHOWN = 300
_GROUPS = 1000
"""At most so many reasons are grouped by their details; further ones by their codes alone."""
_CHANGING = re.compile(r"(?:0x)?[0-9a-f]{8,}|[0-9]+")
"""What differs between two failures for one reason: counts, line numbers, addresses, hashes."""


@dataclass(slots=True)
class _Group:
    code: str
    entry: int
    detail: JsonObject
    count: int = 0


@dataclass(slots=True)
class FailureReasons:
    """Takes the entries of a trail in order; memory is bounded, however many there are."""

    _statuses: Counter[str] = field(default_factory=Counter)
    _groups: dict[tuple[str, str], _Group] = field(default_factory=dict)

    def take(self, entry: JsonObject) -> None:
        """Count what an entry says of episodes, if anything."""
        detail = cast("JsonObject", entry["detail"])
        if entry["event_type"] == RECORDED:
            self._statuses.update(cast("dict[str, int]", detail["statuses"]))
        if entry["event_type"] in {FAILED, REFUSED}:
            self._group_of(cast("int", entry["seq"]), detail).count += 1

    @property
    def statuses(self) -> JsonObject:
        """Return how many recorded episodes ended with each status."""
        return {status.value: self._statuses[status.value] for status in InvocationStatus}

    def most_frequent(self, unscored: int = 0) -> list[JsonValue]:
        """Return code, count and the entry of an example, the most frequent first, at most three.

        `unscored` is how many answers no scorer gave a score for: they have no entry.
        """
        groups = [*self._groups.values()]
        if unscored:
            groups.append(_Group(UNSCORED, -1, {}, unscored))
        groups.sort(key=lambda group: (-group.count, group.entry))
        return [
            {
                "code": group.code,
                "count": group.count,
                "entry": group.entry if group.detail else None,
            }
            for group in groups[:_MOST]
        ]

    def details(self, reasons: Sequence[JsonValue]) -> dict[int, JsonObject]:
        """Return the details of the entries that `reasons` name, by entry."""
        named = {reason["entry"] for reason in cast("Sequence[JsonObject]", reasons)}
        groups = self._groups.values()
        return {group.entry: group.detail for group in groups if group.entry in named}

    def _group_of(self, seq: int, detail: JsonObject) -> _Group:
        code = cast("str", detail["reason"] or detail["status"])
        key = (code, _CHANGING.sub("0", _short(detail["error_detail"])))
        if key not in self._groups and len(self._groups) >= _GROUPS:
            key = (code, "")
        return self._groups.setdefault(key, _Group(code, seq, detail))


def reasons_with_examples(
    reasons: Sequence[JsonValue],
    details: Mapping[int, JsonObject],
    records: Mapping[int, JsonObject],
) -> list[JsonValue]:
    """Return `reasons` with examples in the place of entries, for the owner.

    `details` are those of the entries, `records` invocation records by sequence number: what a
    program wrote last before it failed is in no entry.
    """
    shown: list[JsonValue] = []
    for reason in cast("Sequence[JsonObject]", reasons):
        detail = details.get(cast("int", reason["entry"]))
        example: JsonObject | None = None
        if detail is not None:
            record = records.get(cast("int", detail["seq"]))
            stderr = None if record is None else answering_attempt(record)["stderr"]
            example = {
                "episode_id": _short(detail["episode_id"]),
                "error_detail": _short(detail["error_detail"]),
                "stderr": _last_line(stderr),
            }
        shown.append({"code": reason["code"], "count": reason["count"], "example": example})
    return shown


def _short(text: JsonValue) -> str:
    """Return a text as one line of bounded length, without control characters."""
    return " ".join(clean_detail(cast("str | None", text) or "").split())[:_SHOWN]


def _last_line(text: JsonValue) -> str | None:
    lines = [short for line in str(text or "").splitlines() if (short := _short(line))]
    return lines[-1] if lines else None


async def with_reasons(
    journal: RunJournal, outcome: JsonObject, *, unscored: int = 0
) -> JsonObject:
    """Return an outcome without a certificate, and why: `statuses` and `reasons`."""
    found = FailureReasons()
    async for entry in journal.trail():
        found.take(entry)
    return {**outcome, "statuses": found.statuses, "reasons": found.most_frequent(unscored)}
