"""From a theatre's row to what is shown of it."""

from __future__ import annotations

from datetime import datetime

from backend.repositories.theatre_views import TheatreView
from backend.schemas.theatres import RunDocument, TheatreDocument

_NOT_SHOWN = frozenset(
    {"version", "run_status", "refused_count", "pending_step", "started_at", "heartbeat_at"}
)


def theatre_document(view: TheatreView, *, now: datetime) -> TheatreDocument:
    """Return the document of a theatre."""
    shown = {name: value for name, value in view._asdict().items() if name not in _NOT_SHOWN}
    pending = [] if view.pending_step is None else [view.pending_step]
    return TheatreDocument.model_validate(
        {**shown, "run": _run(view, now), "pending_steps": pending}
    )


def etag_of(view: TheatreView) -> str:
    """Return the entity tag of a theatre: every change of its row is another one."""
    return f'"v{view.version}"'


def _run(view: TheatreView, now: datetime) -> RunDocument | None:
    if view.run_status is None:
        return None
    return RunDocument.model_validate(
        {
            "status": view.run_status,
            "progress": view.progress,
            "total": view.total_episodes,
            "failures": view.failure_count,
            "refused": view.refused_count,
            "started_at": view.started_at,
            "heartbeat_at": view.heartbeat_at,
            "eta_seconds": _eta_seconds(view, now),
        }
    )


def _eta_seconds(view: TheatreView, now: datetime) -> float | None:
    if view.run_status != "running" or view.started_at is None or not view.progress:
        return None
    pace = (now - view.started_at).total_seconds() / view.progress
    return round(max(0.0, pace * (view.total_episodes - view.progress)), 1)
