"""What a log says today of a certificate: that it closed its commitment, once, and still counts.

A reader gets here the entries that came before and after those of the proofs: what else was
committed, what was revoked. Source: docs/contract/trust.md §4, "Closure".
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from theatre.engine.canonical_json import JsonObject
from theatre.transparency.bundle_proofs import LoggedCertificate, ProofCheck, ProofLine
from theatre.transparency.entries import decode_entry
from theatre.transparency.errors import EntryError, LogForkError
from theatre.transparency.log import CHECKPOINT, Follower, TileStore
from theatre.transparency.notes import Checkpoint
from theatre.transparency.policy import Policy
from theatre.transparency.record import Commitment, Fault, LogRecord
from theatre.transparency.tiles import Tree, grow
from theatre.transparency.trust import Trust


async def check_closure(
    store: TileStore, trust: Trust, logged: LoggedCertificate, *, now: datetime
) -> ProofLine:
    """Read the whole log, hold it to its signed root and to both proofs, and say what it shows.

    Raises what `store` raises, and MalformedError, SignatureError or QuorumError for a checkpoint
    that is not the trusted log's as the policy asks for it: then the log was not asked at all.
    """
    logs = {key: url for key, url in trust.policy.logs.items() if key == trust.log}
    policy = Policy(logs, trust.policy.witnesses, trust.policy.groups, trust.policy.quorum)
    shown = policy.verify_checkpoint(await store.read(CHECKPOINT)).checkpoint
    try:
        entries = [entry async for _, entry in Follower().entries(store, shown)]
        for proven in (logged.committed.signed, logged.closed.signed):
            _require_beginning(entries, proven.checkpoint)
    except LogForkError as error:
        return ProofLine(ProofCheck.CLOSURE, ok=False, text=str(error))
    record = LogRecord()
    for index, entry in enumerate(entries):
        record.take(index, entry)
    wrong = next(_problems(record, entries, logged), None)
    text = wrong or f"of {len(entries)} entries: {'; '.join(_describe(record, logged, now))}"
    return ProofLine(ProofCheck.CLOSURE, ok=wrong is None, text=text)


def _require_beginning(entries: Sequence[bytes], proven: Checkpoint) -> None:
    """Raise LogForkError unless the log that is shown today begins with the tree of a proof."""
    tree = grow(Tree(), entries[: proven.size]).tree
    if (tree.size, tree.root) != (proven.size, proven.root):
        raise LogForkError(
            f"expected a log that begins with the {proven.size} entries of the proof's checkpoint, "
            f"got another of {len(entries)}: it shows two trees"
        )


def _problems(
    record: LogRecord, entries: Sequence[bytes], logged: LoggedCertificate
) -> Iterator[str]:
    """Yield why the certificate is not what its commitment came to, or counts no more."""
    statement, committed, closed = logged
    commitment = record.by_index.get(committed.place)
    if commitment is None:
        yield f"expected the theatre's only commitment at {committed.place}, got a second one"
        return
    # The certificate's own entry is one of these where another had closed the commitment before.
    about = list(_faults_of(record, entries, commitment.theatre_id))
    if about:
        yield f"expected one commitment and one closing, got {', '.join(map(_told, about))}"
    revoked = record.revoked.get(statement.sha256)
    if revoked is not None:
        yield f"expected a certificate that is not revoked, got its revocation at {revoked}"
    for index, entry in enumerate(entries[: closed.place]):
        # The reader's trust.json may be older than this.
        members = _members(entry) if statement.kid.encode() in entry else {}
        if members.get("kid") == statement.kid and members["revoked_at"] is not None:
            yield f"expected a key that is not revoked, got its revocation at {index}"


def _describe(record: LogRecord, logged: LoggedCertificate, now: datetime) -> Iterator[str]:
    """Yield which run it was, and what else a reader should know of the log."""
    commitment = record.by_index[logged.committed.place]
    yield str(record.place(commitment.index, now=now))
    for name, count in _asked(record, logged.statement.sha256, now).items():
        yield f"{count} {name}"
    overdue = [run for run in record.of(commitment.construct_id) if run.is_overdue(now)]
    if overdue:
        yield f"overdue: {', '.join(map(_named, overdue))}"
    if record.faults:
        yield f"faults: {', '.join(map(_told, record.faults))}"


def _asked(record: LogRecord, statement: str, now: datetime) -> Mapping[str, int]:
    """Return how many audits of a certificate were answered, are open or overdue."""
    audits = [one for one in record.audits.values() if one.statement_sha256 == statement]
    return Counter(
        "audit answered"
        if one.answered_at is not None
        else "audit not answered in time"
        if one.is_overdue(now)
        else "audit open"
        for one in audits
    )


def _faults_of(record: LogRecord, entries: Sequence[bytes], theatre_id: str) -> Iterator[Fault]:
    for fault in record.faults:
        if _members(entries[fault.index]).get("theatre_id") == theatre_id:
            yield fault


def _members(entry: bytes) -> JsonObject:
    """Return the members of an entry; none of what is no entry."""
    try:
        return decode_entry(entry)[1]
    except EntryError:
        return {}


def _told(fault: Fault) -> str:
    return f"{fault.code} at {fault.index}"


def _named(run: Commitment) -> str:
    return f"{run.theatre_id} at {run.index}"
