"""What the audit chain says of the steps that run in SETTLING, and how it is recorded once.

Source: docs/contract/evidence.md §3. The chain is the only store of
human scores and of the result of a step, so a run that died continues from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self, cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import JournalError
from theatre.engine.replay.context import RunJournal
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
            rubric = _opened(detail, cast("str", entry["at"]))
            self.rubrics[rubric.step_id] = rubric
        if event_type == HUMAN_SCORE:
            line = {name: value for name, value in detail.items() if name != "step_id"}
            step_id = cast("str", detail["step_id"])
            self.rubrics[step_id].scores.append(line | {"at": entry["at"]})


def _opened(detail: JsonObject, at: str) -> OpenedRubric:
    return OpenedRubric(
        step_id=cast("str", detail["step_id"]),
        opened_at=parse_rfc3339(at),
        items=tuple(cast("list[str]", detail["items"])),
        timeout_seconds=cast("float | None", detail["timeout_seconds"]),
    )
