"""Evaluators over stored debates. Their results are stored apart from the debate, never in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.debates import StoredEvaluation, find_evaluations, store_evaluations
from backend.services.debates import read_artefact, read_run
from theatre.debate.actions import Action
from theatre.debate.evaluators import evaluate
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import canonical_bytes, sha256_hex
from theatre.engine.clock import Clock


async def run_evaluators(
    connection: AsyncConnection,
    key: str,
    names: Sequence[str],
    *,
    labels: Mapping[str, Action],
    user_id: str,
    clock: Clock,
) -> Sequence[StoredEvaluation]:
    """Evaluate a user's run as it is now, keep what comes out, and return it; NotFoundError.

    `labels` go to the evaluator `raudit` alone, as in `theatre.debate.evaluators.evaluate`.
    """
    data = await read_artefact(connection, key, user_id=user_id, events=None)
    evaluations = await asyncio.to_thread(_evaluate, data, names, labels, clock())
    await store_evaluations(connection, key, evaluations)
    return evaluations


async def read_evaluations(
    connection: AsyncConnection, key: str, *, user_id: str, artefact_sha256: str | None
) -> Sequence[StoredEvaluation]:
    """Return what evaluators said of a user's run as it is now, or as an earlier artefact.

    NotFoundError where it is not theirs.
    """
    view = await read_run(connection, key, user_id=user_id)
    return await find_evaluations(connection, key, artefact_sha256 or view.artefact_sha256)


def _evaluate(
    data: bytes, names: Sequence[str], labels: Mapping[str, Action], now: datetime
) -> list[StoredEvaluation]:
    artefact = read_debate(data)
    documents = map(canonical_bytes, evaluate(artefact, names, labels))
    return [
        StoredEvaluation(
            artefact_sha256=artefact.sha256,
            evaluator=name,
            sha256=sha256_hex(document),
            document=document,
            created_at=now,
        )
        for name, document in zip(names, documents, strict=True)
    ]
