"""The one writer of the log: takes what is queued, places it, signs, and so publishes it.

Every process that runs theatres offers itself; the lock of the database chooses one. It signs at
once when it was idle, and once a second under load.
"""

import asyncio
import logging

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.jobs.announcements import LOG_QUEUE, ChangeListener, running
from backend.repositories.transparency_log import PostgresLog, hold_writer_lock
from backend.services.transparency.keys import LogKeys
from theatre.api.log_network import compare_with_others, gather_cosignatures
from theatre.engine.errors import TheatreError
from theatre.transparency.log import LogWriter
from theatre.transparency.policy import Policy

_LOOK_SECONDS = 5.0
"""Seconds until an entry is seen whose announcement was lost."""
_AGAIN_SECONDS = 2.0
_BURST = 8
"""So many checkpoints may follow one another at once; after them there is one a second."""
_log = logging.getLogger(__name__)


class Pace:
    """Says how long to wait before the next checkpoint."""

    def __init__(self, now: float) -> None:
        self._left = float(_BURST)
        self._at = now

    def seconds_to_wait(self, now: float) -> float:
        """Take a turn at `now`, in seconds, and return how long it has to wait."""
        self._left = min(float(_BURST), self._left + now - self._at) - 1.0
        self._at = now
        return max(0.0, -self._left)


async def write_log(engine: AsyncEngine, listener: ChangeListener, keys: LogKeys) -> None:
    """Write the log, or wait to, without an end."""
    is_lost = False
    while True:
        try:
            async with hold_writer_lock(engine) as connection:
                if is_lost:
                    _log.info("the log's writer has its database again")
                is_lost = False
                await _write(connection, PostgresLog(engine), listener, keys)
        except (SQLAlchemyError, OSError) as error:
            # Once an outage: every two seconds, it would hide what else is logged.
            if not is_lost:
                _log.warning("the log's writer has lost its database", exc_info=error)
            is_lost = True
        except TheatreError as error:
            # Another tree than the one that was signed, or another key: nothing is signed on it.
            fields = {"code": error.code, "detail": str(error)}
            _log.error("the log is not written", extra={"fields": fields})
        except Exception as error:  # noqa: BLE001 - a KMS may raise anything; the next try may do
            _log.error("the log is not written", exc_info=error)
        await asyncio.sleep(_AGAIN_SECONDS)


async def _write(
    connection: AsyncConnection, store: PostgresLog, listener: ChangeListener, keys: LogKeys
) -> None:
    writer = LogWriter(store, keys.trust.log, keys.sign_log)
    await writer.open()
    # The database may have been restored from an older backup (docs/adr/0185).
    compared = await compare_with_others(store, keys.trust)
    for other in compared.missing:
        _log.warning("the log was not compared", extra={"fields": {"detail": other}})
    loop = asyncio.get_running_loop()
    pace = Pace(loop.time())
    cosigning = Cosigning(store, writer, keys.trust.policy)
    cosigning.note()
    async with running(cosigning.ask()) as asked:
        with listener.subscribe(LOG_QUEUE) as queued:
            while True:
                while taken := await store.take_queued():
                    if asked.done():
                        asked.result()
                    async with cosigning.turn:
                        await writer.append([one.entry for one in taken])
                    cosigning.note()
                    await asyncio.sleep(pace.seconds_to_wait(loop.time()))
                if not await queued.wait(_LOOK_SECONDS):
                    # The lock is held as long as this connection answers.
                    await connection.execute(text("SELECT 1"))
                    await connection.commit()


# Witnesses of the service's policy, asked to cosign each checkpoint next to its writer.


class Cosigning:
    """What a log's writer and the questions to its witnesses share."""

    def __init__(self, store: PostgresLog, writer: LogWriter, policy: Policy) -> None:
        self._store = store
        self._writer = writer
        self._witnesses = [one for one in policy.witnesses.values() if one.url is not None]
        self._signed = asyncio.Event()
        self._missing: list[str] = []
        self.turn = asyncio.Lock()
        """Who signs or adds cosignatures holds it."""

    def note(self) -> None:
        """Have the last checkpoint cosigned."""
        self._signed.set()

    async def ask(self) -> None:
        """Ask without an end; raises LogForkError where a witness has seen another tree."""
        while True:
            await self._signed.wait()
            self._signed.clear()
            checkpoint = self._writer.checkpoint
            lines, missing = await gather_cosignatures(self._store, checkpoint, self._witnesses)
            if missing != self._missing:
                _log.warning("witnesses that did not cosign", extra={"fields": {"detail": missing}})
            self._missing = missing
            async with self.turn:
                # A later one is asked about next.
                if lines and self._writer.checkpoint == checkpoint:
                    await self._writer.add_cosignatures(lines)
