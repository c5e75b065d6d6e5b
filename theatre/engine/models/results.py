"""What a run records of one episode, and its line in the journal."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self, TypeAlias, TypeVar, cast

from theatre.engine.canonical_json import (
    JsonObject,
    canonical_bytes,
    canonical_line,
    parse_object,
)
from theatre.engine.errors import ParseError, UnaskedError
from theatre.engine.models.episodes import (
    CriterionResult,
    EpisodeOutcome,
    InvocationStatus,
    Scored,
    Verdict,
)

# What a scorer asks a judge, what came of it, and the same once more from the record.
#
# A judge is no pure function, so its exchanges are made and recorded first; the score is a pure
# function of them (docs/contract/scoring.md §2).


Judgement: TypeAlias = Generator[JsonObject, JsonObject, float | None]
"""Yields requests to a judge, is sent what came of each, returns the score as scorers do."""

REQUEST, ANSWER = "request", "answer"
"""The members of a recorded exchange."""


class Judge(Protocol):
    """A model outside this project: it knows how to reach the model, and nothing of scores."""

    async def ask(self, request: JsonObject) -> JsonObject:
        """Return what came of `request`, as the evidence keeps it, a failure included.

        Raises TheatreError where no request can succeed before a setting is changed: the
        run stops, and what was recorded stays.
        """


ResultT = TypeVar("ResultT")


async def ask_judge(
    judgement: Generator[JsonObject, JsonObject, ResultT], judge: Judge
) -> tuple[ResultT, list[JsonObject]]:
    """Return what `judgement` comes to with `judge`, and the exchanges for `replay_judgement`.

    Raises what the judge raises.
    """
    exchanges: list[JsonObject] = []
    try:
        sent = next(judgement)
        while True:
            answer = await judge.ask(sent)
            # Copies: a judgement may change what it asked and what it is sent.
            exchanges.append(copy.deepcopy({REQUEST: sent, ANSWER: answer}))
            sent = judgement.send(answer)
    except StopIteration as ended:
        result: ResultT = ended.value
        return result, exchanges


def replay_judgement(
    judgement: Generator[JsonObject, JsonObject, ResultT], exchanges: Sequence[JsonObject]
) -> ResultT:
    """Return what `judgement` comes to with recorded exchanges.

    Raises UnaskedError, saying where, unless they are those that it asks for, and all of them.
    """
    number = 0
    try:
        sent = next(judgement)
        while True:
            answer = _answer_to(sent, exchanges, number)
            number += 1
            sent = judgement.send(answer)
    except StopIteration as ended:
        if len(exchanges) != number:
            raise UnaskedError(f"expected {number} exchanges, got {len(exchanges)}") from None
        result: ResultT = ended.value
        return result


def _answer_to(sent: JsonObject, exchanges: Sequence[JsonObject], number: int) -> JsonObject:
    exchange = exchanges[number] if number < len(exchanges) else {}
    answer = exchange.get(ANSWER)
    if not isinstance(answer, dict) or exchange.keys() != {REQUEST, ANSWER}:
        raise UnaskedError(f"expected exchange {number} as request and answer, got another shape")
    if canonical_bytes(exchange[REQUEST]) != canonical_bytes(sent):
        raise UnaskedError(f"expected exchange {number} with the request that is asked for")
    # A copy: a judgement may change what it is sent, and the record is read again.
    return copy.deepcopy(answer)


_MEMBERS = {"episode_id", "facts", "outcome", "scores", "seq", "status"}
# Within a string a quote is escaped, and no other member of these names is an object or stands
# behind one: the first of the one and the last of the other frame the record.
_OPENS, _CLOSES = b',"invocation":{', b'},"outcome":"'


class InvocationRecord:
    """The document that becomes `invocations/episode_NNNNNN.json`: as values, and as its line.

    Each is made from the other when it is first asked for: what only streams past is not parsed.
    """

    def __init__(self, document: JsonObject) -> None:
        self.document = document

    @classmethod
    def of_line(cls, line: bytes) -> Self:
        """Return the record of a canonical line, its line feed included."""
        record = cls.__new__(cls)
        record.line = line
        return record

    @cached_property
    def document(self) -> JsonObject:
        """Return the record as values."""
        return parse_object(self.line)

    @cached_property
    def line(self) -> bytes:
        """Return the canonical line: hashed, journalled and bundled as it is."""
        return canonical_line(self.document)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a record of the same bytes."""
        return isinstance(other, InvocationRecord) and self.line == other.line

    def __hash__(self) -> int:
        """Return a hash of the bytes."""
        return hash(self.line)


@dataclass(frozen=True, kw_only=True)
class EpisodeResult:
    """One recorded episode: its evidence document, what it counts as, and its scores.

    `facts` is what settling must know of the record without parsing it. What is cached next to
    the record (facts, outcome, scores) is under the digest of the batch, like the record itself.
    """

    seq: int
    episode_id: str
    status: InvocationStatus
    outcome: EpisodeOutcome
    scores: Mapping[str, CriterionResult]
    facts: JsonObject
    record: InvocationRecord

    def as_document(self) -> JsonObject:
        """Return the journal's form: scores as billionths, gaps by name."""
        return {
            **self._before_record(),
            "invocation": self.record.document,
            **self._behind_record(),
        }

    @cached_property
    def line(self) -> bytes:
        """Return the canonical line of the journal's form; the stored bytes, if it was read."""
        before = canonical_bytes(self._before_record())
        behind = canonical_line(self._behind_record())
        return b"".join(
            (before[:-1], _OPENS[:-1], self.record.line[:-1], b",", behind[1:]),
        )

    def _before_record(self) -> JsonObject:
        return {"episode_id": self.episode_id, "facts": self.facts}

    def _behind_record(self) -> JsonObject:
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
    def from_line(cls, line: bytes) -> EpisodeResult:
        """Read a line of the journal back; its record stays bytes until it is needed as values.

        Raises ParseError for what `line` never was, as far as it shows outside the record.
        """
        opens, closes = line.find(_OPENS), line.rfind(_CLOSES)
        if not (line.startswith(b'{"episode_id":') and 0 < opens < closes and line[-1:] == b"\n"):
            raise _other_spelling()
        record = line[opens + len(_OPENS) - 1 : closes + 1] + b"\n"
        document = parse_object(line[:opens] + line[closes + 1 :])
        seq, scores = document.get("seq"), document.get("scores")
        if document.keys() != _MEMBERS or type(seq) is not int or not isinstance(scores, dict):
            raise _other_spelling()
        try:
            result = cls(
                seq=seq,
                episode_id=cast("str", document["episode_id"]),
                status=InvocationStatus(cast("str", document["status"])),
                outcome=EpisodeOutcome(cast("str", document["outcome"])),
                scores={
                    name: Scored(value) if isinstance(value, int) else Verdict(cast("str", value))
                    for name, value in scores.items()
                },
                facts=cast("JsonObject", document["facts"]),
                record=InvocationRecord.of_line(record),
            )
        except ValueError as error:
            raise _other_spelling() from error
        # Not made again: a digest is over the bytes that are stored.
        result.__dict__["line"] = line
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


def _other_spelling() -> ParseError:
    return ParseError("expected the canonical line of a result, got another spelling")
