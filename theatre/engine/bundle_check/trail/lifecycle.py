"""The events of a trail: what may follow what, which states they lead to, what they tell.

Source: docs/evidence.md, "The audit trail". Spelt out here once more: a check that read the
engine's own tables would share their mistakes.
"""

from __future__ import annotations

from theatre.engine.bundle_check.reading.json_values import (
    DefectError,
    Nothing,
    require_members,
    shown,
)
from theatre.engine.canonical_json import JsonValue

START = "start"
STEP_EVENTS = frozenset({"step_completed", "step_failed", "step_skipped"})
HUMAN_EVENTS = frozenset({"human_score", "human_score_refused"})
SETTLED_EVENTS = STEP_EVENTS | {"hitl_opened", "escalated"}
"""What the programme leaves in the trail, scores of people aside."""

STATES: dict[str, tuple[str | None, str | None]] = {
    "created": (None, "DRAFT"),
    "committed": ("DRAFT", "COMMITTED"),
    "activated": ("COMMITTED", "ACTIVE"),
    "settling": ("ACTIVE", "SETTLING"),
}
"""The states that an event leads from and to; every other event leads nowhere."""

_RUNNING = frozenset({"episodes_recorded", "episode_failed", "episode_refused", "settling"})
_NEXT_STEP = frozenset({"hitl_opened", "step_completed", "step_failed", "sealed"})
_ASKING = frozenset({*HUMAN_EVENTS, "step_completed", "step_failed"})
FOLLOWERS: dict[str, frozenset[str]] = {
    START: frozenset({"created"}),
    "created": frozenset({"committed"}),
    "committed": frozenset({"activated"}),
    "activated": frozenset({"episodes_recorded", "settling"}),
    "episodes_recorded": _RUNNING,
    "episode_failed": _RUNNING,
    "episode_refused": _RUNNING,
    "settling": _NEXT_STEP,
    "hitl_opened": _ASKING,
    "human_score": _ASKING,
    "human_score_refused": _ASKING,
    "step_completed": _NEXT_STEP,
    "step_failed": frozenset({"escalated"}),
    "escalated": _NEXT_STEP | {"step_skipped"},
    "step_skipped": _NEXT_STEP | {"step_skipped"},
    "sealed": frozenset(),
}
"""What may stand behind an event; which step is whose turn is for the check `resolution`."""

_ACTIVATED = frozenset(
    {"episodes", "adapters", "scorers", "computations", "sanitiser", "environment"}
)
_STEP = frozenset({"step_id", "type", "status", "result"})
_HUMAN = frozenset({"step_id", "scorer", "episode_id", "score"})
_DETAILS: dict[str, frozenset[str]] = {
    "created": frozenset({"template_id"}),
    "committed": frozenset({"commitment_hash"}),
    "activated": _ACTIVATED,
    "settling": frozenset(),
    "hitl_opened": frozenset(
        {"step_id", "items", "minimum_scorers", "scorer_must_not_be_author", "timeout_seconds"}
    ),
    "human_score": _HUMAN | {"comment"},
    "human_score_refused": _HUMAN | {"code"},
    "step_completed": _STEP,
    "step_failed": _STEP,
    "step_skipped": _STEP,
    "escalated": frozenset({"step_id", "to"}),
    "sealed": frozenset({"certificate_id", "issuer", "issued_at", "theatre_resolved_at"}),
}


def require_known(event_type: JsonValue | Nothing) -> str:
    """Return an event of the lifecycle; DefectError for everything else."""
    if not isinstance(event_type, str) or event_type not in FOLLOWERS.keys() - {START}:
        raise DefectError("an event of the lifecycle", shown(event_type))
    return event_type


def require_detail(event_type: str, detail: JsonValue | Nothing, *, rated: bool) -> None:
    """Raise DefectError unless a detail has the members of its event.

    `rated` says whether the programme asks people: only then are authors named.
    """
    if event_type in _DETAILS:
        members = _DETAILS[event_type]
        if event_type == "activated" and rated:
            members |= {"authors"}
        require_members(detail, members, f"the detail of {event_type}")
