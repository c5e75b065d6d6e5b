"""Whether the rows of a theatre are what their bytes say, and its bytes what its chain says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.certificates import certificate_row
from backend.repositories.journal_rows import episode_row, event_row
from backend.repositories.stored_evidence import Row, events_of, results_of
from theatre.engine.audit_chain import ChainHead, verify_next
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import TheatreError
from theatre.engine.models import EpisodeResult


class Finding(NamedTuple):
    """One thing that differs."""

    code: str
    """What kind of damage; stable."""
    subject: str
    """The theatre or object that has it."""
    expected: str
    actual: str


class Told(NamedTuple):
    """What a whole chain says of its theatre."""

    heads: frozenset[str]
    """The hash of every entry."""
    export_sha256: str | None


_ENDINGS = ("outcome", "outcome_reason", "certificate_id")


class RowCheck:
    """Re-verifies one theatre's rows; every difference is in `findings`."""

    def __init__(self, theatre: Row) -> None:
        self._theatre = theatre
        self._id = str(theatre["id"])
        self.findings: list[Finding] = []

    async def run(self, connection: AsyncConnection) -> Told:
        """Read everything once, streaming."""
        self._check_receipt()
        batches: dict[int, _Batch] = {}
        told = await self._check_chain(connection, batches)
        await self._check_results(connection, batches)
        return told

    def check_certificate(self, row: Row) -> None:
        """Hold the columns of the certificate against its document."""
        try:
            expected = certificate_row(parse_object(bytes(row["document"])))
        except (TheatreError, KeyError) as error:
            self._differs("certificate-unreadable", "a certificate document", str(error))
            return
        self._compare("certificate-columns", "the certificate", expected, row)

    def _check_receipt(self) -> None:
        try:
            receipt = CommitmentReceipt.from_document(parse_object(bytes(self._theatre["receipt"])))
            CommitmentProtocol.verify(receipt)
        except TheatreError as error:
            self._differs("commitment-broken", "a receipt that recomputes", str(error))
            return
        columns = {
            "commitment_hash": receipt.commitment_hash,
            "version_pins": receipt.as_document()["version_pins"],
            "dataset_hashes": receipt.as_document()["dataset_hashes"],
        }
        self._compare("commitment-columns", "the theatre", columns, self._theatre)

    async def _check_chain(self, connection: AsyncConnection, batches: dict[int, _Batch]) -> Told:
        head, heads = ChainHead(), set[str]()
        expected: dict[str, Any] = {"state": None}
        export: str | None = None
        async for row in events_of(connection, self._id):
            place = f"the audit entry {row['seq']}"
            try:
                entry = parse_object(bytes(row["entry"]))
                head = verify_next(head, entry, theatre_id=self._id)
            except TheatreError as error:
                self._differs("chain-broken", f"{place} to continue the chain", str(error))
                return Told(frozenset(heads), export)
            heads.add(str(entry["entry_hash"]))
            self._compare("chain-columns", place, event_row(entry), row)
            detail = cast("JsonObject", entry["detail"])
            if entry["to_state"] is not None:
                expected["state"] = entry["to_state"]
            if entry["event_type"] == "resolved":
                expected |= {name: detail.get(name) for name in _ENDINGS}
            if entry["event_type"] == "archived":
                export = cast("str", detail["export_sha256"])
            if "records_sha256" in detail:
                batch = _Batch.of(detail)
                batches.update(dict.fromkeys(batch.sequences(), batch))
        self._compare("theatre-columns", "the theatre", expected, self._theatre)
        return Told(frozenset(heads), export)

    async def _check_results(
        self, connection: AsyncConnection, batches: Mapping[int, _Batch]
    ) -> None:
        async for row in results_of(connection, self._id):
            place = f"episode {row['seq']}"
            try:
                result = EpisodeResult.from_line(bytes(row["line"]))
                expected = episode_row(self._id, result)
            except TheatreError as error:
                self._differs("result-unreadable", place, str(error))
                continue
            self._compare("result-columns", place, expected, row)
            if int(row["seq"]) in batches:
                batches[int(row["seq"])].take(result.record.line)
        for batch in dict.fromkeys(batches.values()):
            if batch.digest() != batch.records_sha256:
                self._differs("records-differ", str(batch), f"records of {batch.digest()}")

    def _compare(self, code: str, place: str, expected: Mapping[str, Any], row: Row) -> None:
        for name, value in expected.items():
            if row[name] != value:
                self._differs(code, f"{name} of {place}: {value!r:.80}", f"{row[name]!r:.80}")

    def _differs(self, code: str, expected: str, actual: str) -> None:
        self.findings.append(Finding(code, f"theatre {self._id}", expected, actual))


class _Batch:
    """What one entry of the chain says of the records that it covers."""

    def __init__(self, ranges: list[list[int]], records_sha256: str) -> None:
        self._ranges = ranges
        self._digest = hashlib.sha256()
        self.records_sha256 = records_sha256

    @classmethod
    def of(cls, detail: JsonObject) -> _Batch:
        return cls(cast("list[list[int]]", detail["seqs"]), cast("str", detail["records_sha256"]))

    def __str__(self) -> str:
        first, last = self._ranges[0][0], self._ranges[-1][1]
        return f"records of {self.records_sha256} in the batch of episodes {first} to {last}"

    def sequences(self) -> Iterator[int]:
        for first, last in self._ranges:
            yield from range(first, last + 1)

    def take(self, line: bytes) -> None:
        """Take the next record, in dataset order."""
        self._digest.update(line)

    def digest(self) -> str:
        return self._digest.hexdigest()
