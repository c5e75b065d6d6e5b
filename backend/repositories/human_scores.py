"""Human scores as rows: copies for queries of what the audit chain holds, which is what counts."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_COPY = text("""
    INSERT INTO human_scores (
        theatre_id, step_id, identity, episode_seq, user_id, score, comment, audit_seq, created_at
    )
    SELECT e.theatre_id, e.detail_json->>'step_id', lower(u.username), s.seq, u.id,
        (e.detail_json->>'score')::double precision, e.detail_json->>'comment', e.seq, e.created_at
    FROM theatre_audit_events e
    JOIN theatre_episode_scores s
        ON s.theatre_id = e.theatre_id AND s.episode_id = e.detail_json->>'episode_id'
    JOIN users u ON lower(u.username) = lower(e.detail_json->>'scorer')
    WHERE e.theatre_id = CAST(:theatre_id AS uuid) AND e.event_type = 'human_score'
    ON CONFLICT DO NOTHING
""")


async def copy_scores(connection: AsyncConnection, theatre_id: str) -> None:
    """Copy from the chain what people gave in a theatre and what has no row yet.

    Names of users differ by more than case.
    """
    await connection.execute(_COPY, {"theatre_id": theatre_id})
