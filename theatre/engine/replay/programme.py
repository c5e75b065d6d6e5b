"""The steps of a programme that run once, in SETTLING: what each came to, noted and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339
from theatre.engine.replay.computations import EpisodeLines, PlannedComputation, computed
from theatre.engine.replay.journal import OpenDatasets, RunJournal
from theatre.engine.replay.tier_evidence import CallFacts
from theatre.engine.resolution import (
    AGGREGATION,
    EPISODE_STEPS,
    INVOCATION,
    ResolutionStateMachine,
    resolution_document,
)
from theatre.engine.templates import ProductTheatreTemplate

STEP_COMPLETED = "step_completed"


class ProgrammeRun:
    """Carries out the committed programme of one theatre whose calls are done."""

    def __init__(
        self, template: ProductTheatreTemplate, computations: Sequence[PlannedComputation]
    ) -> None:
        self._template = template
        self._computations = computations

    async def outcomes(
        self,
        facts: CallFacts,
        aggregate: JsonObject,
        datasets: OpenDatasets,
        episodes: EpisodeLines,
    ) -> dict[str, JsonObject]:
        """Return step id → what it came to."""
        by_type: dict[str, JsonObject] = {
            INVOCATION: {
                "episodes_recorded": facts.recorded,
                "episodes_discarded": facts.discarded,
            },
            AGGREGATION: {"results_hash": aggregate["results_hash"]},
        }
        programme = self._template.programme
        known = {step.step_id: by_type[step.type] for step in programme if step.type in by_type}
        for planned in self._computations:
            known[planned.step_id] = await computed(planned, self._template, datasets, episodes)
        return known

    async def complete(
        self, journal: RunJournal, outcomes: Mapping[str, JsonObject], at: datetime
    ) -> JsonObject:
        """Note each step of SETTLING once, also over a crash; return `resolution.json`."""
        results = ResolutionStateMachine(self._template.programme).settle(outcomes)
        noted = {
            cast("JsonObject", entry["detail"])["step_id"]
            async for entry in journal.trail()
            if entry["event_type"] == STEP_COMPLETED
        }
        for result in results:
            if result.type not in EPISODE_STEPS and result.step_id not in noted:
                detail = result.as_document()
                await journal.note(
                    AuditEvent(event_type=STEP_COMPLETED, at=format_rfc3339(at), detail=detail)
                )
        return resolution_document(results)
