"""Human scores as rows: copies for queries of what the audit chain holds, which is what counts."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_COPY = text("""
    INSERT INTO human_scores (
        theatre_id, step_id, identity, episode_seq, user_id, score, comment, audit_seq, created_at
    )
    SELECT e.theatre_id, CAST(:step_id AS text), CAST(:identity AS text), s.seq,
        CAST(:user_id AS uuid),
        (e.detail_json->>'score')::double precision, e.detail_json->>'comment', e.seq, e.created_at
    FROM theatre_audit_events e
    JOIN theatre_episode_scores s
        ON s.theatre_id = e.theatre_id AND s.episode_id = e.detail_json->>'episode_id'
    WHERE e.theatre_id = CAST(:theatre_id AS uuid) AND e.event_type = 'human_score'
        AND e.detail_json->>'step_id' = CAST(:step_id AS text)
        AND lower(e.detail_json->>'scorer') = CAST(:identity AS text)
    ON CONFLICT DO NOTHING
""")


async def copy_scores(
    connection: AsyncConnection, theatre_id: str, *, step_id: str, username: str, user_id: str
) -> None:
    """Copy what a user gave at a step from the chain; names differ by more than case."""
    await connection.execute(
        _COPY,
        {
            "theatre_id": theatre_id,
            "step_id": step_id,
            "identity": username.lower(),
            "user_id": user_id,
        },
    )
