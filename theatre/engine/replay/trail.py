"""What the audit trail says of a run: the steps of its programme, and why it has no certificate.

Source: docs/contract/evidence.md §3. The trail is the only store of human scores and of the result
of a step, so a run that died continues from it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self, cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import JournalError
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Isolation, clean_detail
from theatre.engine.replay.context import RunJournal
from theatre.engine.replay.recording import FAILED, RECORDED, REFUSED, answering_attempt
from theatre.engine.resolution import StepResult, StepStatus

STEP_COMPLETED = "step_completed"
STEP_FAILED = "step_failed"
STEP_SKIPPED = "step_skipped"
ESCALATED = "escalated"
HITL_OPENED = "hitl_opened"
HUMAN_SCORE = "human_score"
HUMAN_SCORE_REFUSED = "human_score_refused"

_EVENT_OF_STATUS = {
    StepStatus.COMPLETED: STEP_COMPLETED,
    StepStatus.FAILED: STEP_FAILED,
    StepStatus.SKIPPED: STEP_SKIPPED,
}
_SETTLING = frozenset(_EVENT_OF_STATUS.values())
_ONCE = _SETTLING | {ESCALATED, HITL_OPENED}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRubric:
    """A rubric step since people were asked: when, about which episodes, what they answered.

    `scores` has the lines of `hitl/<step_id>.jsonl` in the order of the chain.
    """

    step_id: str
    opened_at: datetime
    items: tuple[str, ...]
    timeout_seconds: float | None
    scores: list[JsonObject] = field(default_factory=list)

    def is_expired(self, now: datetime) -> bool:
        """Return whether the committed time limit, if there is one, is over."""
        limit = self.timeout_seconds
        return limit is not None and (now - self.opened_at).total_seconds() >= limit


@dataclass(frozen=True, slots=True)
class ProgrammeTrail:
    """The entries of one theatre that are about its programme, by step.

    `authors` (construct → author, None for one who is not named) is what was known when the run
    began; empty for a template without ratings. `activated` is all that was noted then.
    """

    journal: RunJournal
    authors: dict[str, str | None] = field(default_factory=dict)
    activated: JsonObject = field(default_factory=dict)
    rubrics: dict[str, OpenedRubric] = field(default_factory=dict)
    noted: dict[tuple[str, str], JsonObject] = field(default_factory=dict)

    @classmethod
    async def read(cls, journal: RunJournal) -> Self:
        """Read the chain of `journal`."""
        trail = cls(journal)
        async for entry in journal.trail():
            trail._take(entry)
        return trail

    def settled(self, step_id: str) -> JsonObject | None:
        """Return the entry of `resolution.json` of a step that is settled; None before."""
        for event_type in _SETTLING:
            if (event_type, step_id) in self.noted:
                return self.noted[event_type, step_id]
        return None

    async def note_result(self, result: StepResult, at: datetime) -> None:
        """Note a step that is settled, and where its failure leads, once over every crash."""
        entry = result.as_document()
        await self.note(_EVENT_OF_STATUS[result.status], entry, at)
        target = result.result.get("escalated_to")
        if result.status is StepStatus.FAILED and target is not None:
            await self.note(ESCALATED, {"step_id": result.step_id, "to": target}, at)

    async def note(self, event_type: str, detail: JsonObject, at: datetime) -> None:
        """Note what happened to a step, unless it is noted already.

        Raises JournalError where the chain says something else of the same step.
        """
        step_id = cast("str", detail["step_id"])
        noted = self.noted.get((event_type, step_id))
        if noted is None:
            event = AuditEvent(event_type=event_type, at=format_rfc3339(at), detail=detail)
            self._take(await self.journal.note(event))
        elif canonical_bytes(noted) != canonical_bytes(detail):
            raise JournalError(
                f"expected {event_type} of step {step_id} as it was recorded before, got another "
                "one: a scorer, a computation or the journal was changed in the middle of a run"
            )

    def _take(self, entry: JsonObject) -> None:
        event_type = cast("str", entry["event_type"])
        detail = cast("JsonObject", entry["detail"])
        if event_type in _ONCE:
            self.noted[event_type, cast("str", detail["step_id"])] = detail
        if event_type == "activated":
            self.activated.update(detail)
            self.authors.update(cast("Mapping[str, str | None]", detail.get("authors", {})))
        if event_type == HITL_OPENED:
            step_id = cast("str", detail["step_id"])
            self.rubrics[step_id] = OpenedRubric(
                step_id=step_id,
                opened_at=parse_rfc3339(cast("str", entry["at"])),
                items=tuple(cast("list[str]", detail["items"])),
                timeout_seconds=cast("float | None", detail["timeout_seconds"]),
            )
        if event_type == HUMAN_SCORE:
            line = {name: value for name, value in detail.items() if name != "step_id"}
            step_id = cast("str", detail["step_id"])
            self.rubrics[step_id].scores.append(line | {"at": entry["at"]})


def read_isolation(activated: JsonObject) -> dict[str, Isolation]:
    """Return what `activated` says of each construct's isolation."""
    documents = cast("dict[str, dict[str, Any]]", activated["isolation"])
    return {name: Isolation(**document) for name, document in documents.items()}


def read_run_nonce(activated: JsonObject) -> bytes:
    """Return the nonce that the run began with; empty where no log had its commitment."""
    return bytes.fromhex(cast("str", activated.get("run_nonce", "")))


# Why a run has no certificate: how its episodes ended, and what went wrong most often.
#
# The trail has an entry for each failure and each refusal. The outcome names codes and counts
# alone; an example of each is found by its entry, for the owner.


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
            code = cast("str", detail["reason"] or detail["status"])
            key = (code, _CHANGING.sub("0", _short(detail["error_detail"])))
            if key not in self._groups and len(self._groups) >= _GROUPS:
                key = (code, "")
            group = self._groups.setdefault(key, _Group(code, cast("int", entry["seq"]), detail))
            group.count += 1

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
            remarks = [short for line in str(stderr or "").splitlines() if (short := _short(line))]
            example = {
                "episode_id": _short(detail["episode_id"]),
                "error_detail": _short(detail["error_detail"]),
                "stderr": remarks[-1] if remarks else None,
            }
        shown.append({"code": reason["code"], "count": reason["count"], "example": example})
    return shown


def _short(text: JsonValue) -> str:
    """Return a text as one line of bounded length, without control characters."""
    return " ".join(clean_detail(cast("str | None", text) or "").split())[:_SHOWN]


async def with_reasons(
    journal: RunJournal, outcome: JsonObject, *, unscored: int = 0
) -> JsonObject:
    """Return an outcome without a certificate, and why: `statuses` and `reasons`."""
    found = FailureReasons()
    async for entry in journal.trail():
        found.take(entry)
    return {**outcome, "statuses": found.statuses, "reasons": found.most_frequent(unscored)}
