"""Runs that are kept as their event log: taken in whole, opened, extended, shown as of any event.

The caller makes the entries durable; nothing here stores or reads anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from theatre.debate.errors import DebateLogError
from theatre.debate.event_log import (
    DEBATE_CLOSED,
    DebateView,
    after_event,
    append,
    events_of,
    subject_of,
    view_of,
)
from theatre.debate.history import ADDED_ONCE
from theatre.debate.validation import DebateArtefact, read_debate
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Entries to make durable behind those that there were, and the result of the run with them."""

    entries: tuple[JsonObject, ...]
    artefact: DebateArtefact
    is_closed: bool


def open_run_log(data: bytes, *, at: str, goes_on: bool) -> Extension:
    """Return the log of a run that was submitted as an artefact.

    One that `goes_on` is left open for further turns, and so cannot have what a run gets at its
    end. Raises InvalidDebateError for bytes that are no artefact, and DebateLogError.
    """
    artefact = read_debate(data)
    early = [name for name in sorted(ADDED_ONCE) if goes_on and name in artefact.document]
    if early:
        raise DebateLogError(f"expected no {early[0]} before the end of the run, got one")
    entries: list[JsonObject] = []
    subject = subject_of(artefact.document)
    for event in events_of(artefact.document, at=at):
        if not (goes_on and event.event_type == DEBATE_CLOSED):
            entries.append(append(entries, event, subject=subject))
    if goes_on:
        artefact = read_debate(document_as_of(entries, len(entries)))
    return Extension(entries=tuple(entries), artefact=artefact, is_closed=not goes_on)


def extend_log(entries: Sequence[JsonObject], events: Sequence[AuditEvent]) -> Extension:
    """Return what `events` add to a log that there is, which is verified first.

    Raises DebateLogError where the chain breaks or an event does not fit, and InvalidDebateError
    where the run would come to no valid artefact.
    """
    subject = _subject(entries)
    view: DebateView = view_of(entries, subject=subject)
    whole = list(entries)
    for event in events:
        entry = append(whole, event, subject=subject)
        view = after_event(view, entry)
        whole.append(entry)
    return Extension(
        entries=tuple(whole[len(entries) :]),
        artefact=read_debate(canonical_bytes(view.document())),
        is_closed=view.is_closed,
    )


def document_as_of(entries: Sequence[JsonObject], last: int) -> bytes:
    """Return the run as its log shows it after the first `last` entries, in canonical form.

    After the first events it may be no valid artefact yet: one without turns. Raises
    DebateLogError for a chain that breaks.
    """
    return canonical_bytes(view_of(islice(entries, last), subject=_subject(entries)).document())


def _subject(entries: Sequence[JsonObject]) -> str:
    return str(entries[0]["theatre_id"]) if entries else ""
