"""One call of one episode: to the committed construct, with the committed request.

Source: docs/evidence.md, "An invocation record" and "Hops"; contract/construct.md, "Envelope".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID, uuid5

from theatre.engine.bundle_check.attempts import (
    CommittedCall,
    OutputShape,
    check_attempts,
    check_unsent,
)
from theatre.engine.bundle_check.json_values import (
    DefectError,
    Nothing,
    at,
    require_members,
    require_same,
    require_time,
    shown,
)
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.recorded import calls_of, differs, last_attempt
from theatre.engine.bundle_check.steps import CommittedHop
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import GroundTruthEpisode, InvocationStatus
from theatre.engine.schema_registry import SchemaRegistry

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


_CALL = frozenset(
    {
        "hop",
        "repeat",
        "construct_id",
        "adapter",
        "version_source",
        "request",
        "attempts",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """Which call it is: `hop` and `turn` count from 0, `repeat` is 0 or 1; and may it be sent."""

    episode: GroundTruthEpisode
    hop: int
    repeat: int
    sendable: bool = True
    turn: int = 0

    @property
    def name(self) -> str:
        """Return what the call's id is the UUID of; only interactive episodes name turns."""
        name = f"{self.episode.seq}:{self.hop}:{self.repeat}"
        return f"{name}:{self.turn}" if self.turn else name


def require_adapter(plan: CommittedPlan, adapter: JsonValue | Nothing) -> None:
    """Raise DefectError for an adapter that was not committed, or reaches no real construct."""
    if plan.adapter_version is not None:
        require_same("the committed adapter_version", plan.adapter_version, adapter)
    if isinstance(adapter, Nothing) or is_mock(adapter):
        raise DefectError("an adapter that reaches a real construct", shown(adapter))


class CallChecker:
    """Holds calls against the plan and the adapters that the trail names, by construct."""

    def __init__(
        self,
        plan: CommittedPlan,
        theatre_id: str,
        adapters: JsonValue | Nothing,
        registry: SchemaRegistry,
    ) -> None:
        self._plan = plan
        self._theatre = UUID(theatre_id)
        self._adapters = adapters
        self._shapes = [OutputShape(hop.output_spec, registry) for hop in plan.hops]

    def check(self, call: JsonValue, place: CallPlace, sent: JsonValue) -> JsonObject | None:
        """Raise DefectError unless `call` is the committed one with the input `sent`.

        Return its output; None where it ended in anything but success.
        """
        require_members(call, _CALL, "a call")
        known = cast("JsonObject", call)
        hop = self._plan.hops[place.hop]
        self._check_frame(known, hop, place)
        committed = CommittedCall(
            invocation_id=str(uuid5(self._theatre, place.name)),
            construct_id=hop.construct_id,
            version=hop.version,
            max_attempts=self._plan.max_attempts,
            shape=self._shapes[place.hop],
        )
        self._check_request(known["request"], committed, hop, place, sent)
        (check_attempts if place.sendable else check_unsent)(known["attempts"], committed)
        response = at(last_attempt(call), "response")
        succeeded = at(response, "status") == InvocationStatus.SUCCESS.value
        return cast("JsonObject", at(response, "output_data")) if succeeded else None

    def _check_frame(self, call: JsonObject, hop: CommittedHop, place: CallPlace) -> None:
        adapter = call["adapter"]
        require_same("hop", place.hop, call["hop"])
        require_same("repeat", place.repeat, call["repeat"])
        require_same("construct_id", hop.construct_id, call["construct_id"])
        named = at(self._adapters, hop.construct_id)
        require_same("the adapter that the trail names", named, adapter)
        require_adapter(self._plan, adapter)
        if call["version_source"] not in SOURCES:
            raise DefectError("version_source computed or claimed", shown(call["version_source"]))

    def _check_request(
        self,
        request: JsonValue,
        call: CommittedCall,
        hop: CommittedHop,
        place: CallPlace,
        sent: JsonValue,
    ) -> None:
        plan, invoked_at = self._plan, at(request, "metadata", "invoked_at")
        require_time(invoked_at, "invoked_at")
        committed: JsonObject = {
            "invocation_id": call.invocation_id,
            "theatre_id": str(self._theatre),
            "episode_id": place.episode.episode_id,
            "construct_id": hop.construct_id,
            "construct_version": hop.version,
            "input_data": sent,
            "metadata": {
                "timeout_seconds": hop.timeout_seconds,
                "retry_policy": plan.retry_policy,
                "deterministic": plan.deterministic_sample > 0,
                "sanitised": plan.sanitising is not None,
                "invoked_at": None if isinstance(invoked_at, Nothing) else invoked_at,
            },
        }
        require_same("request", committed, request)


def upstream_input(episode_input: JsonValue, outputs: Mapping[str, JsonObject]) -> JsonObject:
    """Return what a later hop is sent: the episode's input, and every output before it."""
    return {"episode": episode_input, "upstream": dict(outputs)}
