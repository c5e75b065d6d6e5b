"""Whether the table of human scores says what the audit chain says people gave."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from backend.repositories.queryable import queryable_columns
from backend.repositories.stored_evidence import Row
from backend.services.chain_reading import ChainReading
from backend.services.findings import Findings
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import parse_rfc3339


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
