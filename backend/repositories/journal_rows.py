"""Results and audit events as rows, and what an event changes in its theatre's row."""

from __future__ import annotations

from typing import Any, cast

from backend.repositories.queryable import queryable, queryable_text
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.clock import parse_rfc3339
from theatre.engine.models import EpisodeResult, Scored

_NANO = 1_000_000_000
_MAX_ERROR = 2000


def episode_row(theatre_id: str, result: EpisodeResult) -> dict[str, Any]:
    """Return the row of a recorded episode; a criterion without a score is null in it."""
    scores: JsonObject = {
        criterion: value.nano / _NANO if isinstance(value, Scored) else None
        for criterion, value in result.scores.items()
    }
    return {
        "theatre_id": theatre_id,
        "seq": result.seq,
        "episode_id": queryable_text(result.episode_id),
        "invocation_status": result.status.value,
        "outcome": result.outcome.value,
        "latency_ms": _latency(result.record.document),
        "scores_json": queryable(scores),
        "line": result.line,
    }


def event_row(entry: JsonObject) -> dict[str, Any]:
    """Return the row of an audit entry."""
    return {
        "theatre_id": entry["theatre_id"],
        "seq": entry["seq"],
        "event_type": entry["event_type"],
        "from_state": entry["from_state"],
        "to_state": entry["to_state"],
        "detail_json": queryable(cast("JsonObject", entry["detail"])),
        "prev_entry_hash": entry["prev_entry_hash"],
        "entry_hash": entry["entry_hash"],
        "entry": canonical_line(entry),
        "created_at": parse_rfc3339(cast("str", entry["at"])),
    }


def theatre_changes(event: AuditEvent) -> dict[str, Any]:
    """Return what an event changes in its theatre's row; nothing but for a transition."""
    if event.to_state is None or event.from_state is None:
        return {}
    moment = parse_rfc3339(event.at)
    changes: dict[str, Any] = {
        "state": event.to_state,
        "updated_at": moment,
        "lost_workers": 0,
    }
    if event.event_type == "activated":
        changes |= {"total_episodes": event.detail["episodes"], "started_at": moment}
    if event.event_type == "resolved":
        changes |= {
            "outcome": event.detail["outcome"],
            "outcome_reason": event.detail.get("outcome_reason"),
            "certificate_id": event.detail.get("certificate_id"),
            "resolved_at": moment,
        }
        if "error_detail" in event.detail:
            error = f"{event.detail['outcome_reason']}: {event.detail['error_detail']}"
            changes["error"] = queryable_text(error)[:_MAX_ERROR]
    return changes


def _latency(record: JsonObject) -> int | None:
    """Return the latency of the answer that counts: the last call of the first round."""
    calls = cast("list[dict[str, Any]]", record["calls"])
    attempts = [call["attempts"] for call in calls if call.get("repeat") == 0]
    if not attempts or not attempts[-1]:
        return None
    return cast("int", attempts[-1][-1]["response"]["latency_ms"])
