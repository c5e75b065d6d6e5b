"""Whether the rows of a theatre are what their bytes say, and its bytes what its chain says."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.evidence_views import (
    Row,
    stream_events,
    stream_human_scores,
    stream_results,
)
from backend.repositories.run_journal import episode_row, event_row
from backend.repositories.stored_certificates import certificate_row
from backend.repositories.theatres import find_coin_sha256, queryable, queryable_columns
from backend.services.theatres import construct_of
from theatre.engine.audit_chain import ChainHead, verify_next
from theatre.engine.canonical_json import JsonObject, canonical_sha256, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import TheatreError
from theatre.engine.models import EpisodeResult, InvocationStatus
from theatre.engine.replay.usage import UsageTally
from theatre.engine.state_machine import TheatreState
from theatre.transparency.fsck import Finding

# What a theatre's audit chain says of its rows, once the chain is verified.


_ENDINGS = ("outcome", "outcome_reason", "certificate_id")


class Batch:
    """What one entry of the chain says of the episodes that it covers."""

    def __init__(self, ranges: list[list[int]], journal_sha256: str) -> None:
        self._ranges = ranges
        self._digest = hashlib.sha256()
        self.journal_sha256 = journal_sha256

    @classmethod
    def of(cls, detail: JsonObject) -> "Batch":
        """Return the batch of an entry that has one."""
        return cls(cast("list[list[int]]", detail["seqs"]), cast("str", detail["journal_sha256"]))

    def __str__(self) -> str:
        first, last = self._ranges[0][0], self._ranges[-1][1]
        return f"lines of {self.journal_sha256} in the batch of episodes {first} to {last}"

    def sequences(self) -> Iterator[int]:
        """Yield the sequence numbers of its episodes."""
        for first, last in self._ranges:
            yield from range(first, last + 1)

    def take(self, line: bytes) -> None:
        """Take the next line, in dataset order: the record, and what is cached with it."""
        self._digest.update(line)

    def digest(self) -> str:
        """Return the digest of what was taken."""
        return self._digest.hexdigest()


@dataclass(slots=True)
class ChainReading:
    """Takes the entries of a chain in order; each must be verified before."""

    heads: set[str] = field(default_factory=set)
    """The hash of every entry."""
    batches: dict[int, Batch] = field(default_factory=dict)
    """By the sequence number of an episode."""
    scores: list[JsonObject] = field(default_factory=list)
    """The entries with what people gave."""
    columns: dict[str, Any] = field(default_factory=dict)
    """The values that the theatre's row should have."""
    is_sealed: bool = False
    export_sha256: str | None = None
    is_whole: bool = True

    def __post_init__(self) -> None:
        """Begin with the state of a theatre before its first entry."""
        nothing = ("state", "commitment_hash", "started_at", "resolved_at", *_ENDINGS)
        self.columns = {**dict.fromkeys(nothing), "total_episodes": 0}

    @property
    def certificate_id(self) -> str | None:
        """Return the id of the certificate that the theatre has."""
        return cast("str | None", self.columns["certificate_id"])

    def take(self, entry: JsonObject) -> None:
        """Take the next entry."""
        self.heads.add(str(entry["entry_hash"]))
        detail, kind = cast("JsonObject", entry["detail"]), entry["event_type"]
        at = parse_rfc3339(cast("str", entry["at"]))
        if entry["to_state"] is not None:
            self.columns["state"] = entry["to_state"]
        if kind == "created":
            self.columns |= {"created_at": at}
        elif kind == "committed":
            self.columns |= {"commitment_hash": detail["commitment_hash"], "committed_at": at}
        elif kind == "activated":
            self.columns |= {"started_at": at, "total_episodes": detail["episodes"]}
        elif kind == "resolved":
            self.columns |= {"resolved_at": at, **{name: detail.get(name) for name in _ENDINGS}}
        elif kind == "sealed":
            self.is_sealed = True
        elif kind == "archived":
            self.export_sha256 = cast("str", detail["export_sha256"])
        elif kind == "human_score":
            self.scores.append(entry)
        if "journal_sha256" in detail:
            batch = Batch.of(detail)
            self.batches.update(dict.fromkeys(batch.sequences(), batch))


# What differs between rows and evidence, collected.


class Findings:
    """What was found of one subject."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.all: list[Finding] = []

    def add(self, code: str, expected: str, actual: str) -> None:
        """Note a difference."""
        self.all.append(Finding(code, self.subject, expected, actual))

    def compare(
        self, code: str, place: str, expected: Mapping[str, Any], row: Mapping[str, Any]
    ) -> None:
        """Hold the columns of a row against what they should be; others are not looked at."""
        for name, value in expected.items():
            if row[name] != value:
                self.add(code, f"{name} of {place}: {value!r:.80}", f"{row[name]!r:.80}")


# Whether the table of human scores says what the audit chain says people gave.


class _Key(NamedTuple):
    step_id: str
    identity: str
    episode_seq: int


class ScoreCheck:
    """Takes the episodes, then the rows, of one theatre whose chain is read."""

    def __init__(self, chain: ChainReading, findings: Findings) -> None:
        self._chain = chain
        self._findings = findings
        self._rated = {str(_detail(entry)["episode_id"]) for entry in chain.scores}
        self._sequences: dict[str, int] = {}
        self._expected: dict[_Key, dict[str, Any]] | None = None

    def note_episode(self, episode_id: str, seq: int) -> None:
        """Learn the sequence number of an episode that is recorded."""
        if episode_id in self._rated:
            self._sequences[episode_id] = seq

    def take(self, row: Row) -> None:
        """Hold a row against the entry that it copies; `username` is that of its user."""
        key = _Key(row["step_id"], row["identity"], row["episode_seq"])
        place = f"the score of {key.identity!a} for episode {key.episode_seq} at {key.step_id!a}"
        expected = self._left().pop(key, None)
        if expected is None:
            self._findings.add("human-score-unvouched", f"an entry with {place}", "none")
            return
        shown = {**row, "username": str(row["username"]).lower()}
        self._findings.compare("human-score-columns", place, expected, shown)

    def finish(self) -> None:
        """Name what has no row; the last rows are copied when the theatre is resolved."""
        if self._chain.columns["outcome"] is None:
            return
        for key in self._left():
            expected = f"a row of {key.identity!a} for episode {key.episode_seq}"
            self._findings.add("human-score-missing", f"{expected} at {key.step_id!a}", "none")

    def _left(self) -> dict[_Key, dict[str, Any]]:
        if self._expected is None:
            self._expected = dict(
                self._row_of(entry)
                for entry in self._chain.scores
                if str(_detail(entry)["episode_id"]) in self._sequences
            )
        return self._expected

    def _row_of(self, entry: JsonObject) -> tuple[_Key, dict[str, Any]]:
        detail = _detail(entry)
        identity = str(detail["scorer"]).lower()
        texts = queryable_columns({"step_id": detail["step_id"], "comment": detail["comment"]})
        key = _Key(texts["step_id"], identity, self._sequences[str(detail["episode_id"])])
        return key, {
            "username": identity,
            "score": float(cast("float", detail["score"])),
            "comment": texts["comment"],
            "audit_seq": entry["seq"],
            "created_at": parse_rfc3339(cast("str", entry["at"])),
        }


def _detail(entry: JsonObject) -> JsonObject:
    return cast("JsonObject", entry["detail"])


_FAILED = frozenset({InvocationStatus.ERROR, InvocationStatus.TIMEOUT})
_ENDED = frozenset({TheatreState.RESOLVED, TheatreState.ARCHIVED})


class RowCheck:
    """Re-verifies one theatre's rows; every difference is in `findings`."""

    def __init__(self, theatre: Row, certificate: Row | None) -> None:
        self._theatre = theatre
        self._certificate = certificate
        self._id = str(theatre["id"])
        self._chain = ChainReading()
        self.findings = Findings(f"theatre {self._id}")

    async def run(self, connection: AsyncConnection) -> ChainReading:
        """Read everything once, streaming; return what the chain says."""
        await self._check_chain(connection)
        self._check_receipt(await find_coin_sha256(connection, self._id))
        scores = ScoreCheck(self._chain, self.findings)
        await self._check_results(connection, scores)
        if self._chain.is_whole:
            self.findings.compare(
                "theatre-columns", "the theatre", self._chain.columns, self._theatre
            )
            self._check_named_certificate()
            async for row in stream_human_scores(connection, self._id):
                scores.take(row)
            scores.finish()
        self._check_certificate()
        return self._chain

    def _check_receipt(self, coin_sha256: str | None) -> None:
        raw = self._theatre["receipt"]
        if raw is None:
            if self._chain.columns["commitment_hash"] is not None:
                self.findings.add("commitment-broken", "a receipt", "none")
            return
        try:
            receipt = CommitmentReceipt.from_document(parse_object(bytes(raw)))
            CommitmentProtocol.verify(receipt)
        except TheatreError as error:
            self.findings.add("commitment-broken", "a receipt that recomputes", str(error))
            return
        # What has ended needs no coin: a sealed bundle has its own.
        is_needed = self._theatre["state"] not in _ENDED
        if coin_sha256 != receipt.coin_sha256 and (coin_sha256 is not None or is_needed):
            seen = coin_sha256 or "none"
            self.findings.add("coin-lost", f"the coin of SHA-256 {receipt.coin_sha256}", seen)
        document = receipt.as_document()
        template = receipt.template_snapshot
        columns = {
            "commitment_hash": receipt.commitment_hash,
            "version_pins": queryable(receipt.version_pins),
            "dataset_hashes": queryable(receipt.dataset_hashes),
            "template_sha256": canonical_sha256(document["template_snapshot"]),
            **queryable_columns(
                {"template_id": template["theatre_id"], "construct_id": construct_of(template)}
            ),
        }
        self.findings.compare("commitment-columns", "the theatre", columns, self._theatre)

    async def _check_chain(self, connection: AsyncConnection) -> None:
        head = ChainHead()
        async for row in stream_events(connection, self._id):
            place = f"the audit entry {row['seq']}"
            try:
                entry = parse_object(bytes(row["entry"]))
                head = verify_next(head, entry, theatre_id=self._id)
            except TheatreError as error:
                self.findings.add("chain-broken", f"{place} to continue the chain", str(error))
                self._chain.is_whole = False
                return
            self.findings.compare("chain-columns", place, event_row(entry), row)
            self._chain.take(entry)

    async def _check_results(self, connection: AsyncConnection, scores: ScoreCheck) -> None:
        batches = self._chain.batches
        counts = {"progress": 0, "failure_count": 0, "refused_count": 0}
        used = UsageTally({})
        async for row in stream_results(connection, self._id):
            place = f"episode {row['seq']}"
            counts["progress"] += 1
            try:
                result = EpisodeResult.from_line(bytes(row["line"]))
                expected = episode_row(self._id, result)
            except TheatreError as error:
                self.findings.add("result-unreadable", place, str(error))
                continue
            counts["failure_count"] += result.status in _FAILED
            counts["refused_count"] += result.status is InvocationStatus.REFUSED
            used.note(cast("JsonObject", result.facts.get("usage", {})))
            self.findings.compare("result-columns", place, expected, row)
            scores.note_episode(result.episode_id, result.seq)
            if int(row["seq"]) in batches:
                batches[int(row["seq"])].take(result.line)
            elif self._chain.is_whole:
                self.findings.add("result-unvouched", f"an entry that covers {place}", "none")
        for batch in dict.fromkeys(batches.values()):
            if batch.digest() != batch.journal_sha256:
                self.findings.add("records-differ", str(batch), f"lines of {batch.digest()}")
        expected = {**counts, "usage_sums": used.as_sums()}
        self.findings.compare("theatre-counts", "the theatre", expected, self._theatre)

    def _check_named_certificate(self) -> None:
        named = self._chain.certificate_id
        found = None if self._certificate is None else str(self._certificate["id"])
        if named == found:
            return
        code = "certificate-missing" if found is None else "certificate-unvouched"
        self.findings.add(code, f"the certificate {named or 'none'}", found or "none")

    def _check_certificate(self) -> None:
        """Hold the columns of the certificate against its document."""
        if self._certificate is None:
            return
        try:
            expected = certificate_row(parse_object(bytes(self._certificate["document"])))
        except (TheatreError, KeyError) as error:
            self.findings.add("certificate-unreadable", "a certificate document", str(error))
            return
        self.findings.compare("certificate-columns", "the certificate", expected, self._certificate)
