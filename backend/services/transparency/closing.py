"""A run in its issuer's log: its commitment before the first call, and its end, once.

Both are queued in the transaction of what they say: a commitment under the epoch of the worker
that is about to call, a certificate or a void with the event `resolved`. The database refuses an
end that closes nothing (docs/adr/0184).
"""

import asyncio

from securesystemslib.signer import Signer
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.errors import LogUnavailableError
from backend.jobs.announcements import ChangeListener, ChangeSignal
from backend.repositories.stored_certificates import store_certificate
from backend.repositories.theatre_runs import StoredTheatre, lock_for_writing
from backend.repositories.theatres import find_coin
from backend.repositories.transparency_log import (
    LoggedRow,
    find_commitment,
    find_nonce,
    hold_trust,
    is_closed,
    is_queued,
    queue_certificate,
    queue_commitment,
    queue_void,
)
from backend.services.runs.lease import RunMonitor
from backend.services.transparency.keys import IssuerKeys, require_unrevoked
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.clock import parse_rfc3339
from theatre.engine.coin import Coin
from theatre.engine.errors import CertificateError, InvalidTransitionError, RunStoppedError
from theatre.transparency.bundle_proofs import (
    certificate_entry,
    commitment_entry,
    commitment_log,
    run_nonce,
)
from theatre.transparency.entries import decode_entry
from theatre.transparency.notes import SignedCheckpoint
from theatre.transparency.proofs import LogProof
from theatre.transparency.run_entries import theatre_commitment, void_reason
from theatre.transparency.statements import certificate_statement, sign_statement

_PATIENCE_SECONDS = 10.0
"""Seconds after which a run gives way to others, and waits for the log's writer in the queue."""
_LOOK_SECONDS = 1.0
"""Seconds until a checkpoint is seen whose announcement was lost, and a stop of this process."""


async def log_commitment(
    engine: AsyncEngine,
    listener: ChangeListener,
    stored: StoredTheatre,
    coin: Coin,
    monitor: RunMonitor,
) -> bytes:
    """Log the commitment of a run that is about to call, and return the nonce of its checkpoint.

    As late as can be: nothing is logged for a run that was refused before. Raises
    StateConflictError where another worker holds the run, RunStoppedError where it is to stop,
    LogUnavailableError where no writer signs, and as `theatre_commitment`.
    """
    # Before it is queued: no announcement is missed, and none is looked for before there is one.
    with listener.subscribe(stored.id) as changes:
        if await _queue(engine, stored, coin):
            await changes.wait(_LOOK_SECONDS)
        logged = await _until_logged(engine, changes, stored.id, monitor)
    return run_nonce(logged.checkpoint)


async def _queue(engine: AsyncEngine, stored: StoredTheatre, coin: Coin) -> bool:
    async with engine.begin() as connection:
        await lock_for_writing(connection, stored.id, epoch=stored.run_epoch)
        await require_open(connection, stored.id)
        return await queue_commitment(connection, theatre_commitment(stored.value(), coin))


async def require_open(connection: AsyncConnection, theatre_id: str) -> None:
    """Raise InvalidTransitionError where the log has the end of a theatre that is unfinished here.

    It ended after the backup that this database was restored from.
    """
    if await is_closed(connection, theatre_id):
        raise InvalidTransitionError(
            f"expected a theatre whose commitment is open, got {theatre_id}, whose end is in "
            "the log already: commit its template again"
        )


async def _until_logged(
    engine: AsyncEngine, changes: ChangeSignal, theatre_id: str, monitor: RunMonitor
) -> LoggedRow:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    looking = engine.execution_options(isolation_level="AUTOCOMMIT")
    while True:
        async with looking.connect() as connection:
            found = await find_commitment(connection, theatre_id)
        if found is not None:
            return found
        if monitor.is_stopping():
            raise RunStoppedError("expected the commitment in a checkpoint, got asked to stop")
        if loop.time() > deadline:
            raise LogUnavailableError(
                "expected the commitment in a checkpoint before the first call, got none: "
                "no writer of the log signs; its process says why"
            )
        await changes.wait(_LOOK_SECONDS)


async def close_uncertified(
    connection: AsyncConnection, theatre_id: str, resolution: JsonObject
) -> None:
    """Queue why a commitment is void, where the log has it or will have it."""
    if await is_queued(connection, theatre_id):
        await queue_void(connection, theatre_id, void_reason(resolution))


async def close_certified(
    connection: AsyncConnection, keys: IssuerKeys, certificate: JsonObject
) -> None:
    """Sign and store a certificate, and queue the entry that closes its commitment.

    CertificateError where it is not of the logged commitment, or its run drew with another nonce
    than that of the log: then nothing is signed. LogUnavailableError where the key that counted
    when it was issued does not answer, is not at hand, or was revoked.
    """
    theatre_id = str(certificate["theatre_id"])
    # What is queued before a revocation is logged before it: it waits for this transaction.
    await hold_trust(connection)
    await require_unrevoked(connection, keys.trust)
    logged = await find_commitment(connection, theatre_id)
    if logged is None:
        raise CertificateError(f"expected the commitment of theatre {theatre_id} in the log")
    await _require_logged_run(connection, logged, certificate)
    signed = SignedCheckpoint.verify(logged.checkpoint, [keys.trust.log])
    place = commitment_log(LogProof(logged.place, (), logged.checkpoint), signed)
    statement = certificate_statement(certificate, place)
    # In a thread: the key may be another machine's.
    issued_at = parse_rfc3339(str(certificate["issued_at"]))
    signer = await asyncio.to_thread(keys.signer_at, issued_at)
    sigstore = await _sign(statement, signer)
    await store_certificate(
        connection, certificate, sigstore=sigstore, statement_sha256=sha256_hex(statement)
    )
    entry = certificate_entry(certificate, statement, logged.place)
    await queue_certificate(connection, theatre_id, entry)


async def _sign(statement: bytes, signer: Signer) -> bytes:
    try:
        return await asyncio.to_thread(sign_statement, statement, signer)
    except Exception as error:
        # A KMS raises what its library does. The run is done, and waits for its certificate.
        raise LogUnavailableError(
            f"expected the issuer's key to sign, got {type(error).__name__}"
        ) from error


async def _require_logged_run(
    connection: AsyncConnection, logged: LoggedRow, certificate: JsonObject
) -> None:
    theatre_id = str(certificate["theatre_id"])
    _, committed = decode_entry(logged.entry)
    close_by = parse_rfc3339(str(committed["close_by"]))
    coin = await find_coin(connection, theatre_id) if "salted" in committed else None
    salt = None if coin is None else coin.secret
    if commitment_entry(certificate, close_by=close_by, salt=salt) != logged.entry:
        raise CertificateError("expected the certificate of the logged commitment, got another's")
    nonce = await find_nonce(connection, theatre_id)
    if nonce != run_nonce(logged.checkpoint).hex():
        raise CertificateError("expected a run that drew with the nonce of its log, got another")
