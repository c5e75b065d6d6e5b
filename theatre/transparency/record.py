"""What a log says of constructs: which commitments are open, closed, overdue, and what is wrong.

Everything here follows from the entries alone, so that a reader, a monitor and the service count
the same. Source: docs/contract/trust.md §4, "Closure".
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError
from theatre.transparency.entries import EntryType, decode_entry
from theatre.transparency.errors import EntryError


@dataclass(frozen=True, slots=True)
class Fault:
    """An entry that should not be in the log, or should not be where it is."""

    index: int
    code: str
    text: str


@dataclass(slots=True)
class Commitment:
    """One commitment of the log, and what closed it, if anything has."""

    index: int
    theatre_id: str
    construct_id: str
    construct_version: str
    template_id: str
    commitment_hash: str
    close_by: datetime
    closed_at: int | None = None
    """The index of the entry that closed it."""
    void_reason: str | None = None
    tier: str | None = None
    statement_sha256: str | None = None

    @property
    def is_open(self) -> bool:
        """Return whether nothing has closed it."""
        return self.closed_at is None

    def is_overdue(self, now: datetime) -> bool:
        """Return whether it is open after the day by which it had to be closed."""
        return self.is_open and now > self.close_by


@dataclass(slots=True)
class Audit:
    """A request to open episodes of a certificate, and whether it was answered."""

    index: int
    statement_sha256: str
    request_sha256: str
    open_by: datetime
    answered_at: int | None = None
    """The index of the entry that answers it."""

    def is_overdue(self, now: datetime) -> bool:
        """Return whether nothing has answered it by its day."""
        return self.answered_at is None and now > self.open_by


class RunCounts(NamedTuple):
    """The commitments of a construct, or of one version of it."""

    commitments: int
    certified: int
    void: dict[str, int]
    open: int
    overdue: int

    @classmethod
    def of(cls, commitments: Iterable[Commitment], now: datetime) -> "RunCounts":
        """Count commitments."""
        runs = list(commitments)
        void = Counter(run.void_reason for run in runs if run.void_reason is not None)
        return cls(
            commitments=len(runs),
            certified=sum(run.statement_sha256 is not None for run in runs),
            void=dict(void),
            open=sum(run.is_open for run in runs),
            overdue=sum(run.is_overdue(now) for run in runs),
        )

    def describe(self) -> str:
        """Return how runs ended: "1 certified, 3 failed, 1 overdue"."""
        ends = {"certified": self.certified, **dict(sorted(self.void.items()))}
        ends |= {"open": self.open - self.overdue, "overdue": self.overdue}
        return ", ".join(f"{count} {name}" for name, count in ends.items() if count) or "none"

    def as_document(self) -> JsonObject:
        """Return the form of `GET /constructs/{id}/record`."""
        return {
            "commitments": self.commitments,
            "certified": self.certified,
            "void": dict(sorted(self.void.items())),
            "open": self.open,
            "overdue": self.overdue,
        }


class RunPlace(NamedTuple):
    """Which of the logged runs of a version one was, from 1, and what came of the others."""

    number: int
    of: int
    others: RunCounts
    runs: int
    """Those of all versions of the construct: who says another version is run 1 again."""
    versions: int

    def __str__(self) -> str:
        """Return it for a person: "run 3 of 5, the other 4: 1 certified, 3 failed".

        Where there were other versions, "; 9 runs of 2 versions" stands behind it.
        """
        count = self.of - 1
        which = f", the other{f' {count}' if count > 1 else ''}: {self.others.describe()}"
        every = f"; {self.runs} runs of {self.versions} versions" if self.versions > 1 else ""
        return f"run {self.number} of {self.of}{which if count else ''}{every}"


@dataclass(slots=True)
class LogRecord:
    """The commitments of a log by theatre, and the faults of its entries."""

    commitments: dict[str, Commitment] = field(default_factory=dict)
    by_index: dict[int, Commitment] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    revoked: dict[str, int] = field(default_factory=dict)
    """Statements by SHA-256, with the index of the entry that revokes them."""
    keys: list[tuple[int, JsonObject]] = field(default_factory=list)
    """What was logged of the issuer's keys, each with its index."""
    audits: dict[str, Audit] = field(default_factory=dict)
    """What was asked to be opened, by the SHA-256 of the request."""

    def take(self, index: int, data: bytes) -> None:
        """Read the next entry; what is wrong with it becomes a fault: a log has to be read on."""
        try:
            kind, members = decode_entry(data)
            match kind:
                case EntryType.COMMITMENT:
                    self._commit(index, members)
                case EntryType.CERTIFICATE | EntryType.VOID:
                    self._close(index, members)
                case EntryType.REVOCATION:
                    self.revoked.setdefault(cast("str", members["statement_sha256"]), index)
                case EntryType.KEY:
                    self.keys.append((index, members))
                case EntryType.DISPUTE if "open_by" in members:
                    self._ask(index, members)
                case EntryType.ATTESTATION if "answers" in members:
                    self._answer(index, members)
                case _:
                    pass
        except (EntryError, ClockError) as error:
            self.faults.append(Fault(index, "entry-invalid", str(error)))

    def _commit(self, index: int, members: JsonObject) -> None:
        commitment = Commitment(
            index=index,
            theatre_id=cast("str", members["theatre_id"]),
            construct_id=cast("str", members["construct_id"]),
            construct_version=cast("str", members["construct_version"]),
            template_id=cast("str", members["template_id"]),
            commitment_hash=cast("str", members["commitment_hash"]),
            close_by=parse_rfc3339(cast("str", members["close_by"])),
        )
        first = self.commitments.get(commitment.theatre_id)
        if first is not None:
            # A second commitment would let an operator choose which of two he has kept to.
            text = f"theatre {first.theatre_id} was committed at {first.index} already"
            self.faults.append(Fault(index, "committed-twice", text))
            return
        self.commitments[commitment.theatre_id] = self.by_index[index] = commitment

    def _close(self, index: int, members: JsonObject) -> None:
        commitment = self.by_index.get(cast("int", members["commitment_index"]))
        if commitment is None or commitment.theatre_id != members["theatre_id"]:
            text = f"no commitment of theatre {members['theatre_id']} at that index"
            self.faults.append(Fault(index, "closes-nothing", text))
            return
        if not commitment.is_open:
            text = f"theatre {commitment.theatre_id} was closed at {commitment.closed_at} already"
            self.faults.append(Fault(index, "closed-twice", text))
            return
        commitment.closed_at = index
        commitment.void_reason = cast("str | None", members.get("reason"))
        commitment.tier = cast("str | None", members.get("tier"))
        commitment.statement_sha256 = cast("str | None", members.get("statement_sha256"))

    def _ask(self, index: int, members: JsonObject) -> None:
        request = cast("str", members["envelope_sha256"])
        open_by = parse_rfc3339(cast("str", members["open_by"]))
        audit = Audit(index, cast("str", members["statement_sha256"]), request, open_by)
        first = self.audits.setdefault(request, audit)
        if first is not audit:
            # A second entry could give the issuer a later day.
            text = f"the audit was asked for at {first.index} already"
            self.faults.append(Fault(index, "asked-twice", text))

    def _answer(self, index: int, members: JsonObject) -> None:
        audit = self.audits.get(cast("str", members["answers"]))
        if audit is None or audit.statement_sha256 != members["statement_sha256"]:
            text = "no audit of that statement was asked for before"
            self.faults.append(Fault(index, "answers-nothing", text))
        elif audit.answered_at is None:
            audit.answered_at = index

    def of(self, construct_id: str, construct_version: str | None = None) -> Iterator[Commitment]:
        """Yield the commitments of a construct, in the log's order."""
        for commitment in self.by_index.values():
            is_wanted = construct_version in {None, commitment.construct_version}
            if commitment.construct_id == construct_id and is_wanted:
                yield commitment

    def overdue(self, now: datetime) -> list[Commitment]:
        """Return the commitments that are open after their day."""
        return [one for one in self.by_index.values() if one.is_overdue(now)]

    def overdue_audits(self, now: datetime) -> list[Audit]:
        """Return the audits that nothing has answered by their day."""
        return [one for one in self.audits.values() if one.is_overdue(now)]

    def counts(
        self, construct_id: str, construct_version: str | None = None, *, now: datetime
    ) -> RunCounts:
        """Return how often a construct was committed, and what came of it."""
        return RunCounts.of(self.of(construct_id, construct_version), now)

    def place(self, commitment_index: int, *, now: datetime) -> RunPlace:
        """Return which run of its construct's version a commitment was.

        Raises EntryError where the log has no commitment there.
        """
        commitment = self.by_index.get(commitment_index)
        if commitment is None:
            raise EntryError(f"expected a commitment at {commitment_index} of the log, got none")
        every = list(self.of(commitment.construct_id))
        runs = [one for one in every if one.construct_version == commitment.construct_version]
        return RunPlace(
            number=runs.index(commitment) + 1,
            of=len(runs),
            others=RunCounts.of((run for run in runs if run is not commitment), now),
            runs=len(every),
            versions=len({one.construct_version for one in every}),
        )
