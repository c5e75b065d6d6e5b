"""How a run ends, or is queued for another worker."""

import errno
import logging
import re
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.errors import (
    BackendError,
    BudgetSpentError,
    EvidenceStoreError,
    JudgeKeyRefusedError,
    LogUnavailableError,
)
from backend.jobs.queue import end_waiting_at, queue_run
from backend.repositories.theatre_runs import (
    StoredTheatre,
    change_run,
    end_claim,
    lock_claimed,
    lock_waiting,
    read_claim,
    read_stored_theatre,
)
from backend.repositories.transparency_log import is_closed
from backend.services.resources import TheatreResources
from backend.services.runs.execution import UNDER_WAY, WAITING_BUDGET, end_as
from backend.services.runs.lease import RunEnd
from theatre.engine.errors import BundleError, RlmfExportError, TheatreError

_LATE_SECONDS = 1.0
"""Seconds between the time limit of a rubric and the check of it: clocks differ a little."""
RETRY_SECONDS = 5.0
"""Seconds until a run that waits for store or disk is tried again."""
_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
_PATH = re.compile(r"(?<![\w:/.])/(?:[^\s/:,;'\"]+/)*[^\s/:,;'\"]+")
_log = logging.getLogger(__name__)


class RunCompletion:
    """Writes ends into rows, under the epoch of the claim: a run that was taken over is left."""

    def __init__(self, engine: AsyncEngine, resources: TheatreResources) -> None:
        self._engine = engine
        self._resources = resources

    async def note(self, stored: StoredTheatre, end: RunEnd) -> None:
        """Say how a run ended, or at which step it waits for people and until when."""
        async with self._engine.begin() as connection:
            await end_claim(
                connection,
                stored.id,
                epoch=stored.run_epoch,
                updated_at=self._resources.clock(),
                run_status=end.status,
                pending_step=end.pending_step,
            )
            if end.seconds_left is not None:
                late = timedelta(seconds=max(0.0, end.seconds_left) + _LATE_SECONDS)
                moment = self._resources.clock() + late
                await end_waiting_at(connection, stored.id, moment)

    async def requeue(self, stored: StoredTheatre) -> None:
        """Queue a claimed run again for any free worker."""
        async with self._engine.begin() as connection:
            if await lock_claimed(connection, stored.id, epoch=stored.run_epoch):
                await queue_run(connection, stored.id)

    async def postpone(self, stored: StoredTheatre, error: Exception) -> None:
        """Queue a claimed run again for later, and store what it waits for."""
        async with self._engine.begin() as connection:
            if await lock_claimed(connection, stored.id, epoch=stored.run_epoch):
                await change_run(connection, stored.id, error=describe_wait(error))
                moment = self._resources.clock() + timedelta(seconds=RETRY_SECONDS)
                await queue_run(connection, stored.id, at=moment)

    async def wait_for_judge(
        self, stored: StoredTheatre, error: BudgetSpentError | JudgeKeyRefusedError
    ) -> None:
        """Leave a claimed run until its owner has it go on; what is recorded and paid stays."""
        why = "a key of its judge" if isinstance(error, JudgeKeyRefusedError) else "its budget"
        _log.info("run waits for %s", why, extra={"fields": {"theatre_id": stored.id}})
        async with self._engine.begin() as connection:
            if not await lock_claimed(connection, stored.id, epoch=stored.run_epoch):
                return
            if (await read_claim(connection, stored.id)).cancel_requested_at is not None:
                # Cancelled meanwhile: to be ended by a worker.
                await queue_run(connection, stored.id)
                return
            await change_run(
                connection,
                stored.id,
                run_status=WAITING_BUDGET,
                error=describe_error(error),
                updated_at=self._resources.clock(),
            )

    async def end_waiting(self, theatre_id: str) -> None:
        """Queue a run that waits for people, to be checked again."""
        async with self._engine.begin() as connection:
            if await lock_waiting(connection, theatre_id):
                await queue_run(connection, theatre_id)

    async def refuse(self, stored: StoredTheatre, error: TheatreError | BackendError) -> None:
        """Leave a run that cannot begin COMMITTED; end one that has begun."""
        _log.warning("run refused", extra={"fields": {"theatre_id": stored.id, "code": error.code}})
        if isinstance(error, RlmfExportError):
            # It has its certificate; only the export failed.
            await self._end(stored, run_status="succeeded", error=describe_error(error))
        else:
            await self.fail(
                stored, failure_outcome(error.code, str(error)), error=describe_error(error)
            )

    async def fail(
        self, stored: StoredTheatre, outcome: dict[str, str], *, error: str | None = None
    ) -> None:
        """Resolve a run that has begun with `outcome`, uncertified; end the run in any case."""
        async with self._engine.connect() as connection:
            row = await read_stored_theatre(connection, stored.id)
            # What the log has of it stands, also where a backup does not know it yet.
            has_ended = await is_closed(connection, stored.id)
        # Under its own epoch: a run that another worker has taken over must not end here.
        now = row._replace(run_epoch=stored.run_epoch)
        if now.state in UNDER_WAY and not has_ended:
            await end_as(self._engine, now, self._resources, outcome={**outcome})
        status = "cancelled" if outcome["outcome"] == "void" else "failed"
        detail = error or outcome.get("error_detail")
        await self._end(stored, run_status=status, error=detail, pending_step=None)

    async def _end(self, stored: StoredTheatre, **changes: str | None) -> None:
        async with self._engine.begin() as connection:
            await end_claim(
                connection,
                stored.id,
                epoch=stored.run_epoch,
                updated_at=self._resources.clock(),
                **changes,
            )


def is_transient(error: BaseException) -> bool:
    """Tell whether a run failed for lack of room, store or log: the operator can fix that."""
    if isinstance(error, BundleError) and error.__cause__ is not None:
        return is_transient(error.__cause__)
    if isinstance(error, OSError):
        return error.errno in _OF_THE_DISK
    return isinstance(error, EvidenceStoreError | LogUnavailableError)


def failure_outcome(reason: str, detail: str) -> dict[str, str]:
    """Return the outcome of a run that failed."""
    shown = strip_paths(detail)[:500]
    return {"outcome": "failed", "outcome_reason": reason, "error_detail": shown}


def describe_wait(error: Exception) -> str:
    """Return the error of a run that waits: for the store, for the log, or for the disk."""
    code = "evidence-disk"
    if isinstance(error, EvidenceStoreError | LogUnavailableError):
        code = error.code
    return f"{code}: {strip_paths(str(error))}"


def describe_error(error: Exception) -> str:
    """Return an error as a theatre's row stores it; one without a code is the disk's."""
    return f"{getattr(error, 'code', 'evidence-disk')}: {strip_paths(str(error))}"


def strip_paths(text: str) -> str:
    """Return a message without the paths of this machine."""
    return _PATH.sub("[path]", text)
