"""`echelon theatre watch`: how far a run is, from what it writes, while it goes on and after."""

import itertools
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import click

from theatre.api.workspace import Workspace, utc_now
from theatre.cli.exits import CommandEndedError, ExitCode, echo
from theatre.cli.progress import PLAIN_INTERVAL, RunLine, format_duration, usage_facts
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.engine.models import EpisodeResult
from theatre.engine.replay.recording import read_sequences
from theatre.engine.replay.usage import UsageTally, tally_of
from theatre.engine.state_machine import TheatreState
from theatre.files.recorded_run import note_usage
from theatre.files.run_journal import EPISODES, TRAIL, last_state
from theatre.files.theatre_store import FileTheatreStore

_PAUSE = 0.5
_RATE_SECONDS = 60
"""The rate is that of the last minute, so that it follows a construct that slows down."""
_QUIET_SECONDS = 30
"""After so long without a word from the run, whether a process makes it is looked at."""
_TWO = 2
"""So many times a rate takes."""
_FAILED = ("timeout", "error")
_RUNNING = {TheatreState.ACTIVE.value, TheatreState.SETTLING.value}
_ENDED = {TheatreState.RESOLVED.value, TheatreState.ARCHIVED.value}


@dataclass(slots=True, kw_only=True)
class RunWatch:
    """What a theatre's audit trail says so far; each look reads only what is new.

    Writes nothing, and looks at the lock of a silent run alone. A line that is still being written
    waits for the next look.
    """

    theatre_id: str
    path: Path
    state: str | None = None
    total: int | None = None
    statuses: Counter[str] = field(default_factory=Counter)
    done: int = 0
    waits_for: str | None = None
    is_stopped: bool = False
    ended: JsonObject | None = None
    newest: datetime | None = None
    used: UsageTally | None = None
    _read: int = 0
    _lines_read: int = 0
    _steps: deque[tuple[datetime, int]] = field(default_factory=deque)

    def look(self) -> bool:
        """Read on; return whether there was anything new."""
        begin = self._read
        with self.path.open("rb") as handle:
            handle.seek(begin)
            for line in handle:
                if not line.endswith(b"\n"):
                    break
                self._take(parse_object(line))
                self._read += len(line)
        return self._read > begin

    def _take(self, entry: JsonObject) -> None:
        detail, kind = cast("dict[str, Any]", entry["detail"]), entry["event_type"]
        self.newest = parse_rfc3339(cast("str", entry["at"]))
        if entry["to_state"] is not None:
            self.state = cast("str", entry["to_state"])
        if kind == "activated":
            self.total = detail["episodes"]
        if kind == "hitl_opened":
            self.waits_for = detail["step_id"]
        if kind in {"step_completed", "step_failed"}:
            self.waits_for = None
        if kind == "resolved":
            self.ended = detail
        batch = sum(map(len, read_sequences(entry)))
        if batch:
            self.statuses.update(detail["statuses"])
            self.done += batch
            self._count_usage(batch)
        # When it began to count, too: one batch alone has a rate then.
        if batch or kind == "activated":
            self._steps.append((self.newest, self.done))
        oldest = self.newest - timedelta(seconds=_RATE_SECONDS)
        while len(self._steps) > _TWO and self._steps[1][0] < oldest:
            self._steps.popleft()

    def _count_usage(self, batch: int) -> None:
        """Read the journal's lines of the batch, which were durable before the trail named it."""
        if self.used is None:
            return
        with self.path.with_name(EPISODES).open("rb") as handle:
            handle.seek(self._lines_read)
            for line in itertools.islice(handle, batch):
                note_usage(self.used, EpisodeResult.from_line(line))
                self._lines_read += len(line)

    @property
    def rate(self) -> float | None:
        """Return the episodes a second of the last minute of the run; None before two batches."""
        if len(self._steps) < _TWO:
            return None
        (begin, before), (end, now) = self._steps[0], self._steps[-1]
        seconds = (end - begin).total_seconds()
        return (now - before) / seconds if seconds > 0 and now > before else None

    @property
    def is_over(self) -> bool:
        """Return whether no more comes: it ended, was stopped, or waits for people."""
        return self.state in _ENDED or self.is_stopped or self.waits_for is not None

    def silence(self, now: datetime) -> float:
        """Return the seconds since its last word."""
        return 0 if self.newest is None else (now - self.newest).total_seconds()

    @property
    def exit_code(self) -> ExitCode:
        """Return what the run ended with."""
        if self.ended is None:
            return ExitCode.INCOMPLETE
        return ExitCode.OK if self.ended["outcome"] == "certified" else ExitCode.FAILURE

    def _cost_to_go(self) -> float | None:
        """Return the dollars that the rest costs at the mean so far; None where it is not known."""
        spent = None if self.used is None else self.used.cost_usd
        if spent is None or self.is_over or self.total is None or not self.done:
            return None
        return round(spent / self.done * (self.total - self.done), 9)

    def document(self) -> JsonObject:
        """Return what is known; null for what is not."""
        left = None
        if not self.is_over and self.total is not None and self.rate is not None:
            left = round((self.total - self.done) / self.rate, 1)
        return {
            "theatre_id": self.theatre_id,
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "statuses": dict(sorted(self.statuses.items())),
            "failures": sum(self.statuses[name] for name in _FAILED),
            "rate": None if self.rate is None else round(self.rate, 3),
            "eta_seconds": left,
            "usage": None if self.used is None else self.used.as_document(),
            "cost_to_go_usd": self._cost_to_go(),
            "waits_for": self.waits_for,
            "outcome": None if self.ended is None else self.ended["outcome"],
            "outcome_reason": None if self.ended is None else self.ended.get("outcome_reason"),
            "at": None if self.newest is None else self.newest.isoformat(),
        }


def watch_theatre(
    theatre_id: str, store: FileTheatreStore, *, pause: Callable[[float], None] = time.sleep
) -> Iterator[tuple[RunWatch, bool]]:
    """Yield the run, and whether it has said anything new, until it is over.

    Raises NotFoundError for an unknown theatre.
    """
    path = store.folder(theatre_id) / TRAIL
    used = tally_of(store.view(theatre_id).template)
    seen = RunWatch(theatre_id=theatre_id, path=path, used=used)
    while True:
        yield seen, seen.look()
        if seen.is_over:
            return
        if seen.state in _RUNNING and seen.silence(utc_now()) > _QUIET_SECONDS:
            seen.is_stopped = not store.is_held(theatre_id)
            if seen.is_stopped:
                # What it wrote between the look and its end.
                seen.look()
                yield seen, True
                return
        pause(_PAUSE)


@click.command()
@click.argument("theatre_id", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document a line, each change.")
def watch(theatre_id: str | None, *, as_json: bool) -> None:
    """Follow the run of a theatre that another process makes, to its end; the newest without ID.

    It reads only what the run writes. The exit code is that of the run: 0 certified, 1 without a
    certificate, 8 where it waits for people or was stopped. Ctrl-C ends the watching, never the
    run.
    """
    store = Workspace.from_environment().store
    found = newest_theatre(store) if theatre_id is None else store.begun_with(theatre_id)
    follow = _print_documents if as_json else _print_lines
    code = follow(found, store)
    if code is not ExitCode.OK:
        raise CommandEndedError(code)


def newest_theatre(store: FileTheatreStore) -> str:
    """Return the newest theatre that has not ended, else the newest; NotFoundError for none."""
    ids = store.theatre_ids()
    if not ids:
        raise NotFoundError("expected a theatre here, got none: echelon theatre run TEMPLATE")
    # While it runs, the last line leads to no state.
    unfinished = (one for one in reversed(ids) if last_state(store.folder(one)) not in _ENDED)
    return next(unfinished, ids[-1])


def _print_documents(theatre_id: str, store: FileTheatreStore) -> ExitCode:
    code = ExitCode.INCOMPLETE
    for seen, is_new in watch_theatre(theatre_id, store):
        code = seen.exit_code
        if is_new:
            click.echo(json.dumps(seen.document()))
    return code


def _print_lines(theatre_id: str, store: FileTheatreStore) -> ExitCode:
    """Draw on a terminal; elsewhere print a line at most every ten seconds, and the last one."""
    code, said_at = ExitCode.INCOMPLETE, None
    with RunLine(theatre_id[:8]) as line:
        for seen, is_new in watch_theatre(theatre_id, store):
            code, now = seen.exit_code, utc_now()
            line.show(seen.done, seen.total or 0, _facts(seen, now))
            due = said_at is None or (now - said_at).total_seconds() >= PLAIN_INTERVAL
            if seen.is_over:
                line.clear()
            if seen.is_over or (is_new and due and not line.is_terminal):
                said_at = now
                words = [f"{seen.done}/{seen.total or '?'}", *_facts(seen, now)]
                echo(f"{theatre_id[:8]}  {'  '.join(words)}")
    return code


def _facts(seen: RunWatch, now: datetime) -> Iterator[str]:
    document = cast("dict[str, Any]", seen.document())
    yield str(seen.state)
    yield f"failed {document['failures']}"
    if seen.statuses["refused"]:
        yield f"refused {seen.statuses['refused']}"
    if not seen.is_over and seen.rate is not None:
        yield f"{seen.rate:.1f}/s"
    if document["eta_seconds"] is not None:
        yield f"{format_duration(document['eta_seconds'])} to go"
    if document["usage"] is not None:
        yield from usage_facts(seen.used, document["cost_to_go_usd"])
    if seen.waits_for is not None:
        yield f"waits for people: echelon theatre hitl {seen.theatre_id}"
    if seen.ended is not None:
        reason = seen.ended.get("outcome_reason")
        yield f"{seen.ended['outcome']}" + (f" ({reason})" if reason else "")
        return
    if seen.is_stopped:
        yield f"stopped: no process makes it; go on with: echelon theatre run {seen.theatre_id}"
    elif seen.waits_for is None and seen.silence(now) > _QUIET_SECONDS:
        yield f"no word for {format_duration(seen.silence(now))}"
