"""The audited batches of episodes, and the invocation records checked against them.

The digest of a batch puts its records under the audit head, which is on the certificate: so a
record that was changed afterwards shows, even where every checksum was recomputed.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol, cast

from theatre.engine.bundle_check.json_values import (
    NOTHING,
    DefectError,
    Nothing,
    at,
    is_whole,
    render,
    require_members,
    same_json,
)
from theatre.engine.bundle_check.recorded import STATUSES, Recorded, last_attempt
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.steps import RoleMarkers, SanitisePolicy
from theatre.engine.canonical_json import (
    MAX_SAFE_INTEGER,
    JsonObject,
    JsonValue,
    canonical_line,
    canonical_sha256,
)
from theatre.engine.models import GroundTruthEpisode, InvocationStatus, RecordedBatch, members_of

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Batch:
    """One `episodes_recorded` entry with the failures and refusals that follow it."""

    def __init__(self, entry: RecordedBatch) -> None:
        self.ranges = entry.seqs
        self._entry = entry
        self._audited_troubles = hashlib.sha256()
        self._records = 0
        self._counted: Counter[str] = Counter()
        self._digest = hashlib.sha256()
        self._troubles = hashlib.sha256()

    def __str__(self) -> str:
        """Return how a report names the batch."""
        return f"the batch of episodes {self.ranges[0][0]} to {self.ranges[-1][1]}"

    def note_audited(self, event_type: str, detail: JsonValue | Nothing) -> None:
        """Take the next failure or refusal that the trail reports for this batch."""
        if not isinstance(detail, Nothing):
            self._audited_troubles.update(canonical_line([event_type, detail]))

    def note_record(self, raw: bytes, record: Recorded) -> None:
        """Take the next invocation record that this batch covers, in dataset order."""
        self._records += 1
        self._digest.update(raw)
        status = record.status
        self._counted[status if isinstance(status, str) else render(status)] += 1
        if status != InvocationStatus.SUCCESS.value:
            refused = status == InvocationStatus.REFUSED.value
            event_type = "episode_refused" if refused else "episode_failed"
            self._troubles.update(canonical_line([event_type, _trouble(record)]))

    def compare(self, ledger: Ledger) -> None:
        """Check the records that were seen against what the trail says of them."""
        check, what = CheckId.AUDIT_EPISODES, str(self)
        covered = sum(last - first + 1 for first, last in self.ranges)
        if self._records != covered:
            ledger.wrong(check, f"{covered} records for {what}", f"{self._records} records")
        if self._digest.hexdigest() != self._entry.records_sha256:
            expected = f"records_sha256 {self._entry.records_sha256} of {what}"
            ledger.wrong(check, expected, self._digest.hexdigest())
        counted: JsonObject = {name: self._counted[name] for name in sorted(STATUSES)}
        ledger.compare(check, f"statuses of {what}", counted, {**self._entry.statuses})
        if self._troubles.digest() != self._audited_troubles.digest():
            expected = f"an entry for each failure and refusal in {what}"
            ledger.wrong(check, expected, "other entries")


def batch_of(detail: JsonValue | Nothing) -> Batch:
    """Read the detail of an `episodes_recorded` entry; DefectError where it is malformed."""
    require_members(detail, members_of(RecordedBatch), "the detail of episodes_recorded")
    statuses = at(detail, "statuses")
    require_members(statuses, STATUSES, "statuses")
    counts = cast("JsonObject", statuses)
    if not all(is_whole(count) for count in counts.values()):
        raise DefectError("statuses as whole numbers", render(counts))
    return Batch(
        RecordedBatch(
            seqs=_ranges(at(detail, "seqs")),
            records_sha256=_digest(detail, "records_sha256"),
            journal_sha256=_digest(detail, "journal_sha256"),
            statuses=cast("dict[str, int]", counts),
        )
    )


def _digest(detail: JsonValue | Nothing, name: str) -> str:
    digest = at(detail, name)
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise DefectError(f"{name} as 64 hex digits", render(digest))
    return digest


def _ranges(seqs: JsonValue | Nothing) -> list[tuple[int, int]]:
    if not isinstance(seqs, list) or not seqs:
        raise DefectError("seqs as a list of ranges", render(seqs))
    ranges: list[tuple[int, int]] = []
    below = 0
    for pair in seqs:
        first, last = at(pair, 0), at(pair, 1)
        whole = isinstance(pair, list) and len(pair) == len(("first", "last"))
        if not (whole and is_whole(first) and is_whole(last)):
            raise DefectError("seqs as pairs of first and last", render(pair))
        low, high = cast("int", first), cast("int", last)
        if not below < low <= high <= MAX_SAFE_INTEGER:
            raise DefectError("seqs that ascend from 1", render(pair))
        ranges.append((low, high))
        below = high
    return ranges


def _trouble(record: Recorded) -> JsonObject:
    """Return the detail that the trail must hold for a record that is no success."""
    call, document = record.answering, record.document
    attempt = last_attempt(call)
    found = {
        "seq": at(document, "seq"),
        "episode_id": at(document, "episode_id"),
        "construct_id": at(call, "construct_id"),
        "hop": at(call, "hop"),
        "status": at(attempt, "response", "status"),
        "reason": at(attempt, "reason"),
        "error_detail": at(attempt, "response", "error_detail"),
    }
    return {key: value for key, value in found.items() if not isinstance(value, Nothing)}


class BatchIndex:
    """Finds the batch of each record; feeds `audit-episodes`."""

    def __init__(self, batches: Sequence[Batch], ledger: Ledger) -> None:
        self._batches = batches
        self._ledger = ledger
        ordered = sorted(
            ((first, last, batch) for batch in batches for first, last in batch.ranges),
            key=lambda item: item[:2],
        )
        self._starts = [first for first, _, _ in ordered]
        self._ordered = ordered
        for (_, last, _), (first, _, _) in pairwise(ordered):
            if first <= last:
                ledger.wrong(
                    CheckId.AUDIT_EPISODES,
                    "each episode in one batch of the trail",
                    f"episode {first} in two",
                )

    def note_record(self, seq: int, raw: bytes, record: Recorded) -> None:
        """Take the record of episode `seq`, in dataset order."""
        place = bisect_right(self._starts, seq) - 1
        if place < 0 or seq > self._ordered[place][1]:
            expected = f"episode {seq} in a batch of the trail"
            self._ledger.wrong(CheckId.AUDIT_EPISODES, expected, "in none")
            return
        self._ordered[place][2].note_record(raw, record)

    def finish(self, *, readable: bool) -> None:
        """Make the check `audit-episodes`, all records seen."""
        if not readable:
            cause = Cause("the audit trail cannot be read to its end")
            self._ledger.cannot(CheckId.AUDIT_EPISODES, cause)
        for batch in self._batches:
            batch.compare(self._ledger)
        self._ledger.completed(CheckId.AUDIT_EPISODES, f"{len(self._batches)} batches")


# What a construct was sent in place of the dataset's text, recomputed.
#
# Source: docs/contract/evidence.md §7.
#
# The sanitiser is the installed one, given by the caller as scorers are: one of another version
# than the recorded one makes the check unavailable, and what needs no sanitiser is still checked.


_IDENTITY = ("sanitiser_version", "tables_sha256")
_MEMBERS = frozenset(
    {
        *_IDENTITY,
        "role_markers",
        "raw_fields",
        "raw_sha256",
        "sent_sha256",
        "counts",
        "fields_changed",
        "fields",
        "wrong_keys",
    }
)


class SanitisedInput(Protocol):
    """What a sanitiser makes of one input. Nothing may be sent where `wrong_keys` names any."""

    @property
    def value(self) -> JsonObject:
        """Return what is sent."""

    @property
    def record(self) -> JsonObject:
        """Return what the evidence keeps of it."""

    @property
    def wrong_keys(self) -> tuple[str, ...]:
        """Return pointers to members whose names would have to change."""


class InputSanitiser(Protocol):
    """The installed sanitiser: pure, total for JSON objects, versioned."""

    @property
    def version(self) -> str:
        """Return name and version, as `theatre-sanitise/1.0.0`."""

    def sanitise(
        self, value: JsonObject, *, role_markers: RoleMarkers, raw_fields: tuple[str, ...]
    ) -> SanitisedInput:
        """Return what must be sent in place of `value`."""


@dataclass(frozen=True, slots=True)
class SentInput:
    """The input that a chain must have got, and whether it could be sent at all."""

    value: JsonValue
    sendable: bool = True


class SanitisingCheck:
    """Makes the check `sanitised-input`, record by record."""

    def __init__(
        self, policy: SanitisePolicy | None, sanitiser: InputSanitiser | None, ledger: Ledger
    ) -> None:
        self._policy = policy
        self._sanitiser = sanitiser
        self._ledger = ledger
        self._installed = _identity_of(sanitiser)
        self._recorded: list[JsonValue] = []
        self._records = 0

    @property
    def version(self) -> JsonValue | Nothing:
        """Return the sanitiser that the records name: null for none, NOTHING where none does."""
        return None if self._policy is None else at(self._recorded, 0)

    def sent(self, record: Recorded, episode: GroundTruthEpisode, where: str) -> SentInput:
        """Check what `record` says was sent against `episode`; return what the calls must hold."""
        self._records += 1
        policy, seen = self._policy, at(record.document, "sanitised")
        if policy is None:
            sent = SentInput(episode.input_data)
            self._compare(where, "sanitised", None, seen)
        elif self._is_another(seen, where) or self._sanitiser is None:
            sent = self._read_recorded(policy, record, episode, where)
        else:
            sent = self._recompute(policy, self._sanitiser, seen, episode, where)
        self._check_calls(record, sent, where)
        return sent

    def finish(self) -> None:
        """Complete the check, all records seen."""
        summary = "none was committed"
        if self._policy is not None:
            summary = f"{self._records} inputs by {render(self.version)}"
        self._ledger.completed(CheckId.SANITISED_INPUT, summary)

    def _is_another(self, seen: JsonValue | Nothing, where: str) -> bool:
        """Return whether a record names a sanitiser that is not the installed one.

        Every record must name the same; one that names none is checked against the installed.
        """
        named = [value for value in map(partial(at, seen), _IDENTITY) if isinstance(value, str)]
        if len(named) != len(_IDENTITY):
            return False
        found: list[JsonValue] = [*named]
        self._recorded = self._recorded or found
        self._compare(where, "the sanitiser of all records", self._recorded, found)
        if named == self._installed:
            return False
        installed = " ".join(self._installed or ("none",))
        text = f"sanitiser {' '.join(named)} is recorded and {installed} installed"
        self._ledger.cannot(CheckId.SANITISED_INPUT, Cause(text, unavailable=True))
        return True

    def _recompute(
        self,
        policy: SanitisePolicy,
        sanitiser: InputSanitiser,
        seen: JsonValue | Nothing,
        episode: GroundTruthEpisode,
        where: str,
    ) -> SentInput:
        made = sanitiser.sanitise(
            episode.input_data, role_markers=policy.role_markers, raw_fields=policy.raw_fields
        )
        self._compare(where, "sanitised", made.record, seen)
        return SentInput(made.value, sendable=not made.wrong_keys)

    def _read_recorded(
        self, policy: SanitisePolicy, record: Recorded, episode: GroundTruthEpisode, where: str
    ) -> SentInput:
        """Check what needs no sanitiser; take the input that the record itself holds."""
        first = record.calls[0] if record.calls else NOTHING
        seen, value = at(record.document, "sanitised"), _episode_input(first)
        value = episode.input_data if isinstance(value, Nothing) else value
        needed: JsonObject = {
            "role_markers": policy.role_markers,
            "raw_fields": list(policy.raw_fields),
            "raw_sha256": canonical_sha256(episode.input_data),
            "sent_sha256": canonical_sha256(value),
        }
        members = seen.keys() if isinstance(seen, dict) else set()
        self._compare(where, "its members", [*sorted(_MEMBERS)], [*sorted(members)])
        for name, expected in needed.items():
            self._compare(where, f"sanitised/{name}", expected, at(seen, name))
        return SentInput(value, sendable=at(seen, "wrong_keys") == [])

    def _check_calls(self, record: Recorded, sent: SentInput, where: str) -> None:
        """Require of each call that its text is the sanitised one exactly if it says so."""
        for call in record.calls:
            flag = at(call, "request", "metadata", "sanitised")
            self._compare(where, "metadata/sanitised", self._policy is not None, flag)
            if self._policy is not None:
                self._compare(where, "the sanitised input", sent.value, _episode_input(call))

    def _compare(
        self, where: str, what: str, expected: JsonValue | Nothing, seen: JsonValue | Nothing
    ) -> None:
        self._ledger.compare(CheckId.SANITISED_INPUT, f"{where}: {what}", expected, seen)


def _identity_of(sanitiser: InputSanitiser | None) -> list[str] | None:
    """Return version and tables of the installed sanitiser, as its records spell them."""
    if sanitiser is None:
        return None
    record = sanitiser.sanitise({}, role_markers="break", raw_fields=()).record
    return [str(record[name]) for name in _IDENTITY]


def _episode_input(call: JsonValue | Nothing) -> JsonValue | Nothing:
    """Return the episode's input in a call, wherever its hop has it."""
    data = at(call, "request", "input_data")
    return data if same_json(at(call, "hop"), 0) else at(data, "episode")
