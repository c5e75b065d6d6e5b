"""One invocation record: the committed call, and an answer that may count.

Source: docs/evidence.md, "An invocation record"; contract/construct.md, "Envelope".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast
from uuid import UUID, uuid5

from theatre.engine.bundle_check.attempts import check_attempts
from theatre.engine.bundle_check.json_values import (
    DefectError,
    Nothing,
    at,
    first_difference,
    require_members,
    require_time,
    shown,
)
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import CheckId, Ledger
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import GroundTruthEpisode, InvocationStatus
from theatre.engine.scoring import EpisodeAnswer

MOCK = "mock"

_RECORD = frozenset({"seq", "episode_id", "calls"})
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
_SOURCES = ("computed", "claimed")


@dataclass(slots=True)
class CallFacts:
    """What the records come to, beside the scores; `adapter` is that of the last record."""

    recorded: int = 0
    version_mismatches: int = 0
    adapter: str = ""
    rehearsal: bool = False
    claimed: bool = False

    @property
    def version_source(self) -> str:
        """Return what the certificate must say: one claimed version makes all of them claimed."""
        return _SOURCES[self.claimed]

    def note(self, record: JsonObject) -> None:
        """Take the facts of one record, as far as it has them."""
        self.recorded += 1
        call = at(record, "calls", -1)
        attempts = at(call, "attempts")
        self.version_mismatches += isinstance(attempts, list) and any(
            at(attempt, "reason") == "version-mismatch" for attempt in attempts
        )
        adapter = at(call, "adapter")
        self.adapter = adapter if isinstance(adapter, str) else ""
        self.rehearsal |= self.adapter.partition("@")[0] == MOCK
        self.claimed |= at(call, "version_source") == "claimed"


class RecordChecker:
    """Holds each record against the plan, the dataset and the adapter that the trail names."""

    def __init__(
        self, plan: CommittedPlan, theatre_id: str, adapter: JsonValue | Nothing, ledger: Ledger
    ) -> None:
        self._plan = plan
        self._theatre = UUID(theatre_id)
        self._adapter = adapter
        self._ledger = ledger

    def check(self, record: JsonObject, episode: GroundTruthEpisode, where: str) -> None:
        """Note to `invocations` and `version-pins` what is wrong with `record`."""
        try:
            self._check_record(record, episode)
        except DefectError as defect:
            expected = f"{where}: {defect.expected}"
            self._ledger.wrong(CheckId.INVOCATIONS, expected, defect.actual)
        self._check_versions(record, where)

    def answer(self, record: JsonObject) -> EpisodeAnswer | None:
        """Return the answer that counts, or None where the record has no readable one."""
        response = at(record, "calls", -1, "attempts", -1, "response")
        status, output = at(response, "status"), at(response, "output_data")
        if not isinstance(status, str) or status not in set(InvocationStatus):
            return None
        if status != InvocationStatus.SUCCESS.value:
            return EpisodeAnswer(status=InvocationStatus(status), hops={})
        if not isinstance(output, dict):
            return None
        return EpisodeAnswer(
            status=InvocationStatus.SUCCESS, hops={self._plan.construct_id: output}
        )

    def _check_record(self, record: JsonObject, episode: GroundTruthEpisode) -> None:
        require_members(record, _RECORD, "a record")
        _require_same("seq", episode.seq, record["seq"])
        _require_same("episode_id", episode.episode_id, record["episode_id"])
        calls = record["calls"]
        if not isinstance(calls, list) or len(calls) != 1:
            raise DefectError("exactly one call", shown(calls))
        call = calls[0]
        require_members(call, _CALL, "a call")
        self._check_call(cast("JsonObject", call))
        self._check_request(at(call, "request"), episode)
        check_attempts(
            at(call, "attempts"),
            invocation_id=self._invocation_id(episode.seq),
            construct_id=self._plan.construct_id,
            max_attempts=self._plan.max_attempts,
        )

    def _check_call(self, call: JsonObject) -> None:
        plan, adapter = self._plan, call["adapter"]
        _require_same("hop", 0, call["hop"])
        _require_same("repeat", 0, call["repeat"])
        _require_same("construct_id", plan.construct_id, call["construct_id"])
        _require_same("the adapter that the trail names", self._adapter, adapter)
        if plan.adapter_version is not None:
            _require_same("the committed adapter_version", plan.adapter_version, adapter)
        if not isinstance(adapter, str) or adapter.partition("@")[0] == MOCK:
            raise DefectError("an adapter that reaches a real construct", shown(adapter))
        if call["version_source"] not in _SOURCES:
            raise DefectError("version_source computed or claimed", shown(call["version_source"]))

    def _check_request(self, request: JsonValue | Nothing, episode: GroundTruthEpisode) -> None:
        plan, invoked_at = self._plan, at(request, "metadata", "invoked_at")
        require_time(invoked_at, "invoked_at")
        committed: JsonObject = {
            "invocation_id": self._invocation_id(episode.seq),
            "theatre_id": str(self._theatre),
            "episode_id": episode.episode_id,
            "construct_id": plan.construct_id,
            "construct_version": plan.construct_version,
            "input_data": episode.input_data,
            "metadata": {
                "timeout_seconds": plan.timeout_seconds,
                "retry_policy": plan.retry_policy,
                "deterministic": False,
                "sanitised": False,
                "invoked_at": None if isinstance(invoked_at, Nothing) else invoked_at,
            },
        }
        _require_same("request", committed, request)

    def _invocation_id(self, seq: int) -> str:
        return str(uuid5(self._theatre, f"{seq}:0:0"))

    def _check_versions(self, record: JsonObject, where: str) -> None:
        """Let an accepted answer report the pin, and a mismatch report anything."""
        pin, attempts = self._plan.construct_version, at(record, "calls", -1, "attempts")
        if not isinstance(attempts, list) or not attempts:
            expected = f"{where}: attempts with a version each"
            self._ledger.wrong(CheckId.VERSION_PINS, expected, shown(attempts))
            return
        for attempt in attempts:
            reason = at(attempt, "reason")
            reported = at(attempt, "response", "construct_version")
            what = f"{where}: construct_version"
            if reason is None and reported != pin:
                self._ledger.wrong(CheckId.VERSION_PINS, f"{what} {pin} (pinned)", shown(reported))
            if reason == "version-mismatch" and not isinstance(reported, str):
                expected = f"{what} as reported, as the reason says"
                self._ledger.wrong(CheckId.VERSION_PINS, expected, shown(reported))


def _require_same(what: str, expected: JsonValue | Nothing, actual: JsonValue | Nothing) -> None:
    found = first_difference(expected, actual)
    if found is not None:
        place = f"{what}{found.pointer}"
        raise DefectError(f"{place} {shown(found.expected)}", shown(found.actual))
