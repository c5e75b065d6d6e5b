"""What a run records of one episode, and its line in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from theatre.engine.canonical_json import (
    JsonObject,
    canonical_bytes,
    canonical_line,
    parse_object,
)
from theatre.engine.errors import ParseError
from theatre.engine.models.outcomes import (
    CriterionResult,
    EpisodeOutcome,
    InvocationStatus,
    Scored,
    Verdict,
)

_BEHIND_INVOCATION = ("outcome", "scores", "seq", "status")


@dataclass(frozen=True, kw_only=True)
class EpisodeResult:
    """One recorded episode: its evidence document, what it counts as, and its scores.

    `invocation` is the document that becomes `invocations/episode_NNNNNN.json`.
    """

    seq: int
    episode_id: str
    status: InvocationStatus
    outcome: EpisodeOutcome
    scores: Mapping[str, CriterionResult]
    invocation: JsonObject

    @cached_property
    def invocation_line(self) -> bytes:
        """Return the canonical line of `invocation`: hashed, journalled and bundled as it is."""
        return canonical_line(self.invocation)

    def as_document(self) -> JsonObject:
        """Return the journal's form: scores as billionths, gaps by name."""
        return {
            "episode_id": self.episode_id,
            "invocation": self.invocation,
            **self._behind_invocation(),
        }

    def as_line(self) -> bytes:
        """Return the canonical line of the journal's form."""
        head, tail = _round_invocation(self.episode_id, self._behind_invocation())
        return head + self.invocation_line[:-1] + tail

    def _behind_invocation(self) -> JsonObject:
        """Return the members of the journal's form whose names sort behind `invocation`."""
        return {
            "outcome": self.outcome.value,
            "scores": {
                criterion: result.nano if isinstance(result, Scored) else result.value
                for criterion, result in self.scores.items()
            },
            "seq": self.seq,
            "status": self.status.value,
        }

    @classmethod
    def from_document(cls, document: JsonObject) -> EpisodeResult:
        """Read the journal's form back. The journal wrote it: no other shape is expected."""
        scores = cast("dict[str, int | str]", document["scores"])
        return cls(
            seq=cast("int", document["seq"]),
            episode_id=cast("str", document["episode_id"]),
            status=InvocationStatus(cast("str", document["status"])),
            outcome=EpisodeOutcome(cast("str", document["outcome"])),
            scores={
                criterion: Scored(value) if isinstance(value, int) else Verdict(value)
                for criterion, value in scores.items()
            },
            invocation=cast("JsonObject", document["invocation"]),
        )

    @classmethod
    def from_line(cls, line: bytes) -> EpisodeResult:
        """Read a line of the journal back, and keep the bytes of its invocation.

        Raises ParseError for what `as_line` never wrote.
        """
        document = parse_object(line)
        result = cls.from_document(document)
        behind = {key: document[key] for key in _BEHIND_INVOCATION}
        head, tail = _round_invocation(result.episode_id, behind)
        if not (line.startswith(head) and line.endswith(tail)):
            raise ParseError("expected the canonical line of a result, got another spelling")
        vars(result)["invocation_line"] = line[len(head) : -len(tail)] + b"\n"
        return result


def sequence_ranges(sequences: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending `sequences` as inclusive ranges: 1, 2, 3, 7 → (1, 3), (7, 7)."""
    ranges: list[tuple[int, int]] = []
    for seq in sequences:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges


def _round_invocation(episode_id: str, behind: JsonObject) -> tuple[bytes, bytes]:
    """Return what the journal's line holds before the invocation and behind it."""
    head = b'{"episode_id":' + canonical_bytes(episode_id) + b',"invocation":'
    return head, b"," + canonical_line(behind)[1:]
