"""The audit trail: an unbroken chain, along the lifecycle, in time, up to the sealing.

Source: docs/contract/evidence.md §3 and §11. The lifecycle stands here once more: a
check that read the engine's own table would share its mistakes. Whether a clock was right, nothing
in a bundle settles; that its stamps follow from each other, and name no time to come, is settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from theatre.engine.audit_chain import verify_chain
from theatre.engine.bundle_check.arithmetic import STATES
from theatre.engine.bundle_check.batches import Batch, Recorded, batch_of
from theatre.engine.bundle_check.folder import AUDIT_TRAIL, BundleFolder, canonical_object
from theatre.engine.bundle_check.report import (
    NOTHING,
    SHA256,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    render,
    require_members,
    require_same,
    require_time,
    same_json,
    text_members,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.coin import NO_NONCE
from theatre.engine.errors import ChainBrokenError, ClockError

START = "start"
STEP_EVENTS = frozenset({"step_completed", "step_failed", "step_skipped"})
HUMAN_EVENTS = frozenset({"human_score", "human_score_refused"})
SETTLED_EVENTS = STEP_EVENTS | {"hitl_opened", "escalated"}
"""What the programme leaves in the trail, scores of people aside."""

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

_ENVIRONMENTS = frozenset({"environment", "previous_environment"})
_ENVIRONMENT = frozenset({"environment_hash", "interpreter", "platform"})
_ACTIVATED = _ENVIRONMENTS | {
    *("episodes", "adapters", "scorers", "computations", "sanitiser", "isolation"),
}
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

_NONCE = "run_nonce"
"""There where a log had the commitment before the run began."""

GRACE = timedelta(seconds=5)
"""How far the first call may lie before the commitment: two clocks may have written them."""

AHEAD = timedelta(minutes=5)
"""How far a stamp may lie beyond the checker's own clock."""

_FULL = len("2026-11-21T02:07:00.000000Z")


def require_detail(event_type: str, detail: JsonValue | Nothing, *, rated: bool) -> None:
    """Raise DefectError unless a detail has the members of its event.

    `rated` says whether the programme asks people: only then are authors named.
    """
    if event_type in _DETAILS:
        members = _DETAILS[event_type]
        if event_type == "activated" and rated:
            members |= {"authors"}
        nonce = at(detail, _NONCE) if event_type == "activated" else NOTHING
        if nonce is not NOTHING:
            members |= {_NONCE}
            if not isinstance(nonce, str) or not SHA256.fullmatch(nonce):
                raise DefectError(f"activated/{_NONCE} as a SHA-256", render(nonce))
        require_members(detail, members, f"the detail of {event_type}")
    for name in sorted(_ENVIRONMENTS if event_type == "activated" else ()):
        require_environment(at(detail, name), f"activated/{name}")


def require_environment(value: JsonValue | Nothing, what: str) -> None:
    """Raise DefectError unless `value` says what a construct could import, or is null: unknown."""
    if value is None:
        return
    require_members(value, _ENVIRONMENT, what)
    texts = text_members(value)
    if not all(texts.get(name) for name in _ENVIRONMENT):
        raise DefectError(f"{what} as texts that say something", render(value))
    if not SHA256.fullmatch(texts["environment_hash"]):
        raise DefectError(f"{what}/environment_hash as a SHA-256", render(value))


@dataclass(slots=True)
class SubmittedRating:
    """What the trail records of one rating, from its opening to its end."""

    opened: JsonObject
    scores: list[JsonObject] = field(default_factory=list)
    refused: list[JsonObject] = field(default_factory=list)
    end: JsonObject | Nothing = NOTHING

    @property
    def step_id(self) -> JsonValue | Nothing:
        """Return the step that it names."""
        return at(self.opened, "detail", "step_id")


@dataclass(slots=True)
class AuditTrail:
    """What the trail says, whether or not its chain holds.

    `entries` has the first entry of each event that happens once; `settled` what the programme
    left, in order: event and detail, of an opening the step_id alone. `ratings` has each rating
    with its entries; `head` is the hash that the last entry bears.
    """

    entries: dict[str, JsonObject] = field(default_factory=dict)
    settled: list[JsonValue] = field(default_factory=list)
    ratings: list[SubmittedRating] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    head: JsonValue | Nothing = NOTHING
    readable: bool = False

    def entry(self, event_type: str) -> JsonObject | Nothing:
        """Return the entry of an event that happens once, or NOTHING."""
        return self.entries.get(event_type, NOTHING)

    def detail(self, event_type: str, *keys: str) -> JsonValue | Nothing:
        """Return what the detail of such an entry holds, or NOTHING."""
        return at(self.entry(event_type), "detail", *keys)

    @property
    def run_nonce(self) -> bytes:
        """Return what went into the draws of the run; whether it is a log's, the proofs show."""
        nonce = self.detail("activated", _NONCE)
        fits = isinstance(nonce, str) and SHA256.fullmatch(nonce)
        return bytes.fromhex(nonce) if fits and isinstance(nonce, str) else NO_NONCE


def read_audit_trail(
    folder: BundleFolder,
    theatre_id: str | Nothing,
    times: Times,
    ledger: Ledger,
    *,
    rated: bool,
) -> AuditTrail:
    """Read the trail and make the check `audit-chain` but for what other files say of it.

    `rated` says whether the committed programme asks people.
    """
    reader = _TrailReader(times, ledger, rated=rated)
    entries = reader.entries(folder)
    try:
        verify_chain(entries, theatre_id=theatre_id if isinstance(theatre_id, str) else "")
    except ChainBrokenError as error:
        ledger.wrong(CheckId.AUDIT_CHAIN, "an unbroken chain", str(error))
        # The rest is read all the same: what it says is checked against the other files.
        deque(entries, maxlen=0)
    if reader.last != "sealed":  # a chain shows no cut tail: its last entry must be the sealing
        ledger.wrong(CheckId.AUDIT_CHAIN, "a last entry sealed", reader.last)
    return reader.trail


class _TrailReader:
    """Follows the events one by one; what is out of place goes to `audit-chain`."""

    def __init__(self, times: Times, ledger: Ledger, *, rated: bool) -> None:
        self.trail = AuditTrail()
        self.last = START
        self._times = times
        self._ledger = ledger
        self._rated = rated

    def entries(self, folder: BundleFolder) -> Iterator[JsonObject]:
        """Yield the entries that can be read; a line that cannot be breaks the chain by its gap."""
        read, broken = 0, False
        with self._ledger.noting(CheckId.AUDIT_CHAIN):
            for number, line in enumerate(folder.lines(AUDIT_TRAIL), start=1):
                entry = None
                with self._ledger.noting(CheckId.AUDIT_CHAIN):
                    entry = canonical_object(line, f"{AUDIT_TRAIL} line {number}", self._ledger)
                if entry is None:
                    broken = True
                    continue
                read += 1
                with self._ledger.noting(CheckId.AUDIT_CHAIN, where=f"line {read} with "):
                    self._take(entry)
                yield entry
            self.trail.readable = not broken

    def _take(self, entry: JsonObject) -> None:
        self.trail.head = at(entry, "entry_hash")
        self._times.note_entry(entry)
        event_type = at(entry, "event_type")
        if not isinstance(event_type, str) or event_type not in FOLLOWERS.keys() - {START}:
            raise DefectError("an event of the lifecycle", render(event_type))
        allowed, above = FOLLOWERS[self.last], self.last
        self.last = event_type
        self._keep(event_type, entry)
        if event_type not in allowed:
            names = " or ".join(sorted(allowed)) or "no entry"
            raise DefectError(f"{names} behind {above}", event_type)
        expected = STATES.get(event_type, (None, None))
        for wanted, found in zip(
            expected, (at(entry, "from_state"), at(entry, "to_state")), strict=True
        ):
            if not same_json(wanted, found):
                raise DefectError(
                    f"{event_type} from {expected[0]} to {expected[1]}", render(found)
                )
        stamp = require_time(at(entry, "at"), "at")
        # One spelling: the other checks compare moments as texts.
        require_same("at", format_rfc3339(parse_rfc3339(stamp)), stamp)
        require_detail(event_type, at(entry, "detail"), rated=self._rated)

    def _keep(self, event_type: str, entry: JsonObject) -> None:
        detail = at(entry, "detail")
        if event_type == "episodes_recorded":
            self.trail.batches.append(batch_of(detail))
        elif event_type in {"episode_failed", "episode_refused"}:
            if self.trail.batches:
                self.trail.batches[-1].note_audited(event_type, detail)
        elif event_type in SETTLED_EVENTS | HUMAN_EVENTS:
            self._note_settled(event_type, entry)
        else:
            self.trail.entries.setdefault(event_type, entry)

    def _note_settled(self, event_type: str, entry: JsonObject) -> None:
        ratings, detail = self.trail.ratings, at(entry, "detail")
        if event_type == "hitl_opened":
            ratings.append(SubmittedRating(entry))
        elif ratings and event_type in HUMAN_EVENTS:
            rating = ratings[-1]
            (rating.scores if event_type == "human_score" else rating.refused).append(entry)
        elif ratings and event_type in STEP_EVENTS and isinstance(ratings[-1].end, Nothing):
            ratings[-1].end = entry
        if event_type in SETTLED_EVENTS:
            observed = at(detail, "step_id") if event_type == "hitl_opened" else detail
            shape = None if isinstance(observed, Nothing) else observed
            self.trail.settled.append({"event_type": event_type, "detail": shape})


class Times:
    """Takes the stamps of the trail and of the records as they are read.

    A stamp that is no time is for the check that reads it: here it counts for nothing.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._entry = ""
        self._first_call: str | None = None
        self._last_answer = ""
        self._latest = ""

    def note_entry(self, entry: JsonObject) -> None:
        """Take the next entry of the audit trail: none is earlier than the one before it."""
        stamp = _stamp(at(entry, "at"))
        if stamp is None:
            return
        # An entry that is put in afterwards is late, whatever place it is given.
        if stamp < self._entry:
            place = f"entry {render(at(entry, 'seq'))} of the trail at {self._entry} or later"
            self._ledger.wrong(CheckId.TIMES, place, stamp)
        self._entry = max(self._entry, stamp)
        self._latest = max(self._latest, stamp)

    def note_record(self, record: Recorded, where: str) -> None:
        """Take one record: no answer is earlier than its call, nor than the attempt before it."""
        for call in record.calls:
            asked = _stamp(at(call, "request", "metadata", "invoked_at"))
            if asked is None:
                continue
            self._first_call = asked if self._first_call is None else min(self._first_call, asked)
            attempts, before = at(call, "attempts"), asked
            for attempt in attempts if isinstance(attempts, list) else ():
                answered = _stamp(at(attempt, "response", "responded_at")) or before
                if answered < before:
                    expected = f"{where}: an answer at {before} or later"
                    self._ledger.wrong(CheckId.TIMES, expected, answered)
                before = answered
            self._last_answer = max(self._last_answer, before)

    def finish(
        self, committed_at: JsonValue | Nothing, sealed_at: JsonValue | Nothing, now: datetime
    ) -> None:
        """Make the check `times`, everything noted."""
        committed, sealed = _stamp(committed_at), _stamp(sealed_at)
        if committed is None or sealed is None:
            expected = "a trail with the times of commitment and sealing"
            self._ledger.wrong(CheckId.TIMES, expected, "none")
            return
        try:
            earliest = format_rfc3339(parse_rfc3339(committed) - GRACE)
        except (ClockError, OverflowError):
            earliest = committed
        # Who asks first and commits afterwards knows what he commits to.
        if self._first_call is not None and self._first_call < earliest:
            expected = f"a first call at {earliest} or later, committed at {committed}"
            self._ledger.wrong(CheckId.TIMES, expected, self._first_call)
        if self._last_answer > sealed:
            expected = f"a last answer at {sealed} or earlier, when it was sealed"
            self._ledger.wrong(CheckId.TIMES, expected, self._last_answer)
        latest, limit = max(self._latest, self._last_answer), format_rfc3339(now + AHEAD)
        # A stamp from the future would keep a certificate from expiring.
        if latest > limit:
            self._ledger.wrong(CheckId.TIMES, f"no time beyond {limit}", latest)
        self._ledger.completed(CheckId.TIMES, f"committed {committed}, sealed {sealed}")


def _stamp(value: JsonValue | Nothing) -> str | None:
    """Return a time in the one spelling that sorts as time does; None for what is no time."""
    if not isinstance(value, str):
        return None
    if len(value) == _FULL:
        return value
    try:
        return format_rfc3339(parse_rfc3339(value))
    except ClockError:
        return None
