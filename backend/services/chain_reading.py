"""What a theatre's audit chain says of its rows, once the chain is verified."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import parse_rfc3339

_ENDINGS = ("outcome", "outcome_reason", "certificate_id")


class Batch:
    """What one entry of the chain says of the episodes that it covers."""

    def __init__(self, ranges: list[list[int]], journal_sha256: str) -> None:
        self._ranges = ranges
        self._digest = hashlib.sha256()
        self.journal_sha256 = journal_sha256

    @classmethod
    def of(cls, detail: JsonObject) -> Batch:
        """Return the batch of an entry that has one."""
        return cls(cast("list[list[int]]", detail["seqs"]), cast("str", detail["journal_sha256"]))

    def __str__(self) -> str:
        """Say which episodes it covers."""
        first, last = self._ranges[0][0], self._ranges[-1][1]
        return f"lines of {self.journal_sha256} in the batch of episodes {first} to {last}"

    def sequences(self) -> Iterator[int]:
        """Yield the sequence numbers of its episodes."""
        for first, last in self._ranges:
            yield from range(first, last + 1)

    def take(self, line: bytes) -> None:
        """Take the next line, in dataset order: the record, and what is cached with it."""
        self._digest.update(line)

    def digest(self) -> str:
        """Return the digest of what was taken."""
        return self._digest.hexdigest()


@dataclass(slots=True)
class ChainReading:
    """Takes the entries of a chain in order; each must be verified before."""

    heads: set[str] = field(default_factory=set)
    """The hash of every entry."""
    batches: dict[int, Batch] = field(default_factory=dict)
    """By the sequence number of an episode."""
    scores: list[JsonObject] = field(default_factory=list)
    """The entries with what people gave."""
    columns: dict[str, Any] = field(default_factory=dict)
    """The values that the theatre's row should have."""
    is_sealed: bool = False
    export_sha256: str | None = None
    is_whole: bool = True

    def __post_init__(self) -> None:
        """Begin with the state of a theatre before its first entry."""
        nothing = ("state", "commitment_hash", "started_at", "resolved_at", *_ENDINGS)
        self.columns = {**dict.fromkeys(nothing), "total_episodes": 0}

    @property
    def certificate_id(self) -> str | None:
        """Return the id of the certificate that the theatre has."""
        return cast("str | None", self.columns["certificate_id"])

    def take(self, entry: JsonObject) -> None:
        """Take the next entry."""
        self.heads.add(str(entry["entry_hash"]))
        detail, kind = cast("JsonObject", entry["detail"]), entry["event_type"]
        at = parse_rfc3339(cast("str", entry["at"]))
        if entry["to_state"] is not None:
            self.columns["state"] = entry["to_state"]
        if kind == "created":
            self.columns |= {"created_at": at}
        elif kind == "committed":
            self.columns |= {"commitment_hash": detail["commitment_hash"], "committed_at": at}
        elif kind == "activated":
            self.columns |= {"started_at": at, "total_episodes": detail["episodes"]}
        elif kind == "resolved":
            self.columns |= {"resolved_at": at, **{name: detail.get(name) for name in _ENDINGS}}
        elif kind == "sealed":
            self.is_sealed = True
        elif kind == "archived":
            self.export_sha256 = cast("str", detail["export_sha256"])
        elif kind == "human_score":
            self.scores.append(entry)
        if "journal_sha256" in detail:
            batch = Batch.of(detail)
            self.batches.update(dict.fromkeys(batch.sequences(), batch))
