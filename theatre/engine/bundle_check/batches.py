"""The audited batches of episodes, and the invocation records checked against them.

The digest of a batch puts its records under the audit head, which is on the certificate: so a
record that was changed afterwards shows, even where every checksum was recomputed.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import NamedTuple, cast

from theatre.engine.bundle_check.arithmetic import taken_by
from theatre.engine.bundle_check.folder import BundleFolder, canonical_object
from theatre.engine.bundle_check.report import (
    NOTHING,
    SHA256,
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    is_whole,
    render,
    require_members,
    same_json,
)
from theatre.engine.canonical_json import MAX_SAFE_INTEGER, JsonObject, JsonValue, canonical_line
from theatre.engine.models import (
    EPISODE_RESULT,
    FIRST,
    JUDGEMENTS,
    SECOND,
    InvocationStatus,
    RecordedBatch,
    members_of,
)

# The first round that was answered, else that failed: a refusal must not hide a failure.
_RANKS = {"success": 0, "timeout": 1, "error": 1, "refused": 2}
STATUSES = frozenset(status.value for status in InvocationStatus)
MOCK = "mock"
MISMATCH = "version-mismatch"
SOURCES = ("computed", "declared", "claimed")
"""Who says which version answered, the surest first."""

PART_SIZE = 1000
_EPISODE = re.compile(r"invocations/episode_(\d{6,})\.json", re.ASCII)
_PART = re.compile(r"invocations/part-(\d{5,})\.jsonl", re.ASCII)
_MAX_DIGITS = 15


class Recorded:
    """One record, taken apart once: its calls by round, and the answer that they led to."""

    __slots__ = (
        *("answering", "calls", "document", "first", "outputs", "repeated", "rounds", "status"),
    )

    def __init__(self, document: JsonObject) -> None:
        self.document = document
        calls = document.get("calls")
        self.calls: list[JsonValue] = calls if isinstance(calls, list) else []
        """All calls in order; none where the record holds no array of them."""
        self.first = [call for call in self.calls if _is_of(call, FIRST)]
        self.rounds, self.repeated = [self.calls], list[JsonValue]()
        """The calls of each round, in order; and those of the second one."""
        if not 0 < len(self.first) == len(self.calls):
            by_repeat = groupby(self.calls, lambda call: at(call, "repeat"))
            self.rounds = [[*calls] for _, calls in by_repeat]
            self.repeated = [call for call in self.calls if _is_of(call, SECOND)]
        self.answering = self._answering()
        """The call whose answer is the episode's: the last one of its round."""
        self.status = ended(self.answering)
        played = document.get(EPISODE_RESULT, NOTHING)
        self.outputs = _outputs(self.first) if played is NOTHING else _objects([played])
        """Those of the first round, up to the first call that did not succeed.

        Of an interactive episode: what its runner made of it, in the place of its one output.
        """

    def _answering(self) -> JsonValue | Nothing:
        ends = [calls[-1] for calls in self.rounds]
        ranks = [_RANKS.get(str(ended(end)), -1) for end in ends]
        if min(ranks, default=-1) < 0:
            return self.first[-1] if self.first else NOTHING
        return ends[ranks.index(min(ranks))]

    def round(self, repeat: int) -> tuple[str, list[JsonObject]] | None:
        """Return the status of one repeat and its outputs; None where it has no readable one."""
        calls = [call for call in self.calls if _is_of(call, repeat)]
        status = ended(calls[-1]) if calls else NOTHING
        if not isinstance(status, str) or status not in STATUSES:
            return None
        return status, _outputs(calls)

    def judgements(self, repeat: int | None = None) -> dict[str, list[JsonObject]]:
        """Return criterion → exchanges about an answer, of those that are objects."""
        judgements = at(self.document, JUDGEMENTS, *(() if repeat is None else (repeat,)))
        if not isinstance(judgements, dict):
            return {}
        return {
            criterion: _objects(exchanges if isinstance(exchanges, list) else [])
            for criterion, exchanges in judgements.items()
        }

    @property
    def differs(self) -> bool:
        """Return whether it was asked a second time and not answered the same at every hop."""
        if not self.repeated:
            return False
        return not same_json([*self.outputs], [*_outputs(self.repeated)])


def ended(call: JsonValue | Nothing) -> JsonValue | Nothing:
    """Return the status that a call ended with."""
    return at(call, "attempts", -1, "response", "status")


def _is_of(call: JsonValue, repeat: int) -> bool:
    """Return whether a call is of one round: 0 and 0.0 are the same JSON value, false is not."""
    number = call.get("repeat") if isinstance(call, dict) else None
    return isinstance(number, (int, float)) and number == repeat and not isinstance(number, bool)


def _outputs(calls: Sequence[JsonValue]) -> list[JsonObject]:
    outputs: list[JsonObject] = []
    for call in calls:
        response = at(call, "attempts", -1, "response")
        output = at(response, "output_data")
        if at(response, "status") != "success" or not isinstance(output, dict):
            break
        outputs.append(output)
    return outputs


def _objects(values: Sequence[JsonValue | Nothing]) -> list[JsonObject]:
    return [value for value in values if isinstance(value, dict)]


def is_mock(adapter: JsonValue) -> bool:
    """Return whether an adapter's pin is no text, or that of canned answers."""
    return not isinstance(adapter, str) or adapter.partition("@")[0] == MOCK


@dataclass(slots=True)
class CallFacts:
    """Facts of the episodes that were run; what was discarded counts in nothing else.

    `adapters` maps each construct that was called to its adapter in the newest record,
    `version_mismatches` counts calls, `determinism_differences` episodes.
    """

    is_repeated: bool = False
    """Whether all episodes are asked more than once: then answers may differ."""
    recorded: int = 0
    discarded: int = 0
    version_mismatches: int = 0
    determinism_differences: int = 0
    adapters: dict[str, str] = field(default_factory=dict)
    rehearsal: bool = False
    sources: set[str] = field(default_factory=set)
    taken: list[JsonObject] = field(default_factory=list)
    """What calls without an envelope took, for `usage`."""
    is_stated: bool = False
    """Whether the certificate said it, because the records are withheld."""

    @property
    def version_source(self) -> str:
        """Return what the certificate must say: the least sure of all."""
        return max(self.sources, key=SOURCES.index, default="computed")

    def note(self, record: Recorded) -> None:
        """Take the facts of one record, as far as it has them."""
        self.recorded += 1
        self.determinism_differences += record.differs and not self.is_repeated
        for call in record.calls:
            attempts, construct = at(call, "attempts"), at(call, "construct_id")
            if isinstance(attempts, list):
                self.version_mismatches += MISMATCH in [at(one, "reason") for one in attempts]
            adapter = at(call, "adapter")
            if isinstance(adapter, str):
                self.rehearsal |= is_mock(adapter)
                if isinstance(construct, str):
                    self.adapters[construct] = adapter
            try:
                taken = taken_by(cast("JsonObject", call))
            except (KeyError, TypeError):  # what has another form is said of the record itself
                taken = None
            if taken is not None:
                self.taken.append(taken)
            source = at(call, "version_source")
            if isinstance(source, str) and source in SOURCES:
                self.sources.add(source)


class RecordItem(NamedTuple):
    """One record: where it lies, the episode of that place, its bytes, and what they parse to."""

    where: str
    position: int
    raw: bytes
    record: Recorded | None


def stored_records(folder: BundleFolder, total: int | None, ledger: Ledger) -> Iterator[RecordItem]:
    """Yield every record by ascending position; `total` is the number of episodes, if known.

    Files of the wrong layout, and what cannot be read, go to `invocations`.
    """
    episodes, parts = _list_numbered(folder, _EPISODE), _list_numbered(folder, _PART)
    in_parts = bool(parts) if total is None else total > PART_SIZE
    for _, path in episodes if in_parts else parts:
        layout = f"parts of {PART_SIZE} records" if in_parts else "a file for each record"
        ledger.wrong(CheckId.INVOCATIONS, f"{layout} in invocations", f"also {path}")
    for number, path in parts if in_parts else episodes:
        with ledger.noting(CheckId.INVOCATIONS):
            if not in_parts:
                yield _item(folder.read(path), path, number, ledger)
                continue
            position, last = (number - 1) * PART_SIZE, number * PART_SIZE
            for line, raw in enumerate(folder.lines(path), start=1):
                if position == last:
                    raise DefectError(f"{path} with records up to episode {last}", "more")
                item = _item(raw, f"{path} line {line}", position + 1, ledger)
                seq = None if item.record is None else at(item.record.document, "seq")
                if is_whole(seq) and position < seq <= last:
                    # What lies between was not answered before the run was over.
                    item = item._replace(position=seq)
                position = item.position
                yield item


def _list_numbered(folder: BundleFolder, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the files of one layout by number; only the one spelling of a number counts."""
    found = []
    for path in folder.files:
        match = pattern.fullmatch(path)
        if match is None or len(match[1]) > _MAX_DIGITS:
            continue
        width = 6 if pattern is _EPISODE else 5
        if match[1] == f"{int(match[1]):0{width}d}":
            found.append((int(match[1]), path))
    return sorted(found)


def _item(raw: bytes, where: str, position: int, ledger: Ledger) -> RecordItem:
    record: Recorded | None = None
    with ledger.noting(CheckId.INVOCATIONS):
        record = Recorded(canonical_object(raw, where, ledger))
    return RecordItem(where=where, position=position, raw=raw, record=record)


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
        if status != InvocationStatus.SUCCESS:
            refused = status == InvocationStatus.REFUSED
            event_type = "episode_refused" if refused else "episode_failed"
            self._troubles.update(canonical_line([event_type, _trouble(record)]))

    def compare(self, ledger: Ledger) -> None:
        """Check the records that were seen against what the trail says of them."""
        check, what = CheckId.AUDIT_EPISODES, str(self)
        covered = sum(last - first + 1 for first, last in self.ranges)
        # Who exchanges a record must change the trail, and so the head on the certificate.
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
    if not isinstance(digest, str) or not SHA256.fullmatch(digest):
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
        low, high = first, last
        if not below < low <= high <= MAX_SAFE_INTEGER:
            raise DefectError("seqs that ascend from 1", render(pair))
        ranges.append((low, high))
        below = high
    return ranges


def _trouble(record: Recorded) -> JsonObject:
    """Return the detail that the trail must hold for a record that is no success."""
    call, document = record.answering, record.document
    attempt = at(call, "attempts", -1)
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
