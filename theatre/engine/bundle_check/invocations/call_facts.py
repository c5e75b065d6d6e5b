"""What the invocation records come to, beside the scores (docs/evidence.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from theatre.engine.bundle_check.invocations.recorded import calls_of, differs
from theatre.engine.bundle_check.reading.json_values import at
from theatre.engine.canonical_json import JsonObject, JsonValue

MOCK = "mock"
SOURCES = ("computed", "claimed")


def is_mock(adapter: JsonValue) -> bool:
    """Tell whether an adapter's pin is no text, or that of canned answers."""
    return not isinstance(adapter, str) or adapter.partition("@")[0] == MOCK


@dataclass(slots=True)
class CallFacts:
    """Facts of the episodes that were run; what was discarded counts in nothing else.

    `adapters` maps each construct that was called to its adapter in the newest record,
    `version_mismatches` counts calls, `determinism_differences` episodes.
    """

    recorded: int = 0
    discarded: int = 0
    version_mismatches: int = 0
    determinism_differences: int = 0
    adapters: dict[str, str] = field(default_factory=dict)
    rehearsal: bool = False
    claimed: bool = False

    @property
    def version_source(self) -> str:
        """Return what the certificate must say: one claimed version makes all of them claimed."""
        return SOURCES[self.claimed]

    def note(self, record: JsonObject) -> None:
        """Take the facts of one record, as far as it has them."""
        self.recorded += 1
        self.determinism_differences += differs(record)
        for call in calls_of(record):
            self._note_call(call)

    def _note_call(self, call: JsonValue) -> None:
        attempts, construct = at(call, "attempts"), at(call, "construct_id")
        self.version_mismatches += isinstance(attempts, list) and any(
            at(attempt, "reason") == "version-mismatch" for attempt in attempts
        )
        adapter = at(call, "adapter")
        if isinstance(adapter, str):
            self.rehearsal |= is_mock(adapter)
            if isinstance(construct, str):
                self.adapters[construct] = adapter
        self.claimed |= at(call, "version_source") == "claimed"
