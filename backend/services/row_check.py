"""Whether the rows of a theatre are what their bytes say, and its bytes what its chain says."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.certificates import certificate_row
from backend.repositories.commitments import find_coin_sha256
from backend.repositories.journal_rows import episode_row, event_row
from backend.repositories.queryable import queryable, queryable_columns
from backend.repositories.stored_evidence import (
    Row,
    stream_events,
    stream_human_scores,
    stream_results,
)
from backend.services.chain_reading import ChainReading
from backend.services.findings import Findings
from backend.services.score_check import ScoreCheck
from backend.services.theatres import construct_of
from theatre.engine.audit_chain import ChainHead, verify_next
from theatre.engine.canonical_json import canonical_sha256, parse_object
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import TheatreError
from theatre.engine.models import EpisodeResult, InvocationStatus
from theatre.engine.state_machine import TheatreState

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
            self.findings.compare("result-columns", place, expected, row)
            scores.note_episode(result.episode_id, result.seq)
            if int(row["seq"]) in batches:
                batches[int(row["seq"])].take(result.line)
            elif self._chain.is_whole:
                self.findings.add("result-unvouched", f"an entry that covers {place}", "none")
        for batch in dict.fromkeys(batches.values()):
            if batch.digest() != batch.journal_sha256:
                self.findings.add("records-differ", str(batch), f"lines of {batch.digest()}")
        self.findings.compare("theatre-counts", "the theatre", counts, self._theatre)

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
