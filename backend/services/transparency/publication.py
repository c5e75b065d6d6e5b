"""What strangers read of the log: its files, proofs of certificates, records of constructs.

Everything is public, and derived from rows that never change.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.certificate_views import SignedCertificate, find_signed
from backend.repositories.transparency_log import (
    CountedPlace,
    LoggedRow,
    LogReader,
    count_runs,
    count_runs_around,
    find_certificate_entry,
    find_commitment,
    find_trust,
)
from theatre.engine.errors import NotFoundError
from theatre.transparency.bundle_proofs import CERTIFICATE_PROOF, COMMITMENT_PROOF, STATEMENT, TRUST
from theatre.transparency.log import prove_inclusion
from theatre.transparency.proofs import LogProof
from theatre.transparency.record import RunCounts, RunPlace

_NOT_VOID = ("certified", "open", "overdue")


async def read_trust(connection: AsyncConnection) -> bytes:
    """Return `trust.json`; NotFoundError before a worker has begun."""
    found = await find_trust(connection)
    if found is None:
        raise NotFoundError("expected the keys of a service that has begun, got none")
    return found


async def read_log_file(connection: AsyncConnection, path: str) -> bytes:
    """Return the checkpoint or a tile of the log; NotFoundError where there is none."""
    return await LogReader(connection).read(path)


async def signed_certificate(connection: AsyncConnection, certificate_id: str) -> bytes:
    """Return the Sigstore bundle of a certificate; NotFoundError where there is none."""
    return (await _signed(connection, id=certificate_id)).sigstore


async def certificate_proof(connection: AsyncConnection, statement_sha256: str) -> bytes:
    """Return the proof that a statement is in the log, with the signed certificate.

    NotFoundError where no certificate has that statement, and before the log has its entry.
    """
    signed = await _signed(connection, statement_sha256=statement_sha256)
    logged = await find_certificate_entry(connection, signed.theatre_id)
    if logged is None:
        raise NotFoundError("expected an entry of the log, got one that waits for its writer")
    return await _prove(connection, logged, extra=signed.sigstore)


async def proofs_of(connection: AsyncConnection, theatre_id: str) -> dict[str, bytes]:
    """Return what lies next to the bundle of a certified theatre, by name, as far as it is logged.

    Source: docs/contract/trust.md §4, "Next to a bundle".
    """
    signed = await _signed(connection, theatre_id=theatre_id)
    files = {STATEMENT: signed.sigstore, TRUST: await read_trust(connection)}
    commitment = await find_commitment(connection, theatre_id)
    certificate = await find_certificate_entry(connection, theatre_id)
    if commitment is not None:
        files[COMMITMENT_PROOF] = await _prove(connection, commitment)
    if certificate is not None:
        files[CERTIFICATE_PROOF] = await _prove(connection, certificate, extra=signed.sigstore)
    return files


async def _signed(connection: AsyncConnection, **wanted: str) -> SignedCertificate:
    found = await find_signed(connection, **wanted)
    if found is None:
        raise NotFoundError("expected a certificate, got none")
    return found


async def _prove(
    connection: AsyncConnection, logged: LoggedRow, *, extra: bytes | None = None
) -> bytes:
    proof = await prove_inclusion(LogReader(connection), logged.place, logged.checkpoint)
    return bytes(LogProof(proof.index, proof.hashes, proof.checkpoint, extra))


# The record of a construct, and the place of one run in it.


async def places_of_runs(
    connection: AsyncConnection, theatre_ids: Sequence[str], *, now: datetime
) -> dict[str, RunPlace]:
    """Return the place of each theatre among the runs of its version; none where no log has it."""
    counted: dict[str, list[CountedPlace]] = {}
    for row in await count_runs_around(connection, theatre_ids, now=now) if theatre_ids else ():
        counted.setdefault(row.theatre_id, []).append(row)
    places = {}
    for theatre_id, rows in counted.items():
        others = [(row.status, row.runs - (row.status == row.own_status)) for row in rows]
        total = sum(row.runs for row in rows)
        first = rows[0]
        places[theatre_id] = RunPlace(
            number=first.number,
            of=total,
            others=_counts(others),
            runs=first.of_construct,
            versions=first.versions,
        )
    return places


async def construct_record(
    connection: AsyncConnection, construct_id: str, construct_version: str | None, *, now: datetime
) -> tuple[RunCounts, dict[str, RunCounts]]:
    """Return what came of the logged runs of a construct: of all of them, and by version."""
    counted = await count_runs(connection, construct_id, construct_version, now=now)
    versions = dict.fromkeys(row.construct_version for row in counted)
    by_version = {
        version: _counts([row[1:] for row in counted if row.construct_version == version])
        for version in versions
    }
    return _counts([row[1:] for row in counted]), by_version


def _counts(rows: Sequence[tuple[str, int]]) -> RunCounts:
    by_status = Counter[str]()
    for status, runs in rows:
        by_status[status] += runs
    void = {name: runs for name, runs in by_status.items() if runs and name not in _NOT_VOID}
    return RunCounts(
        commitments=by_status.total(),
        certified=by_status["certified"],
        void=void,
        open=by_status["open"] + by_status["overdue"],
        overdue=by_status["overdue"],
    )
