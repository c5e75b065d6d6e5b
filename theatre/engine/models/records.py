"""What the evidence keeps of calls and episodes: the forms of documents, and the journal's line.

Source: docs/contract/evidence.md §7 and §3; docs/constructs.md. A form says which members a
document has, and of which type: the writer fills them, the check reads into them. Which values may
stand there, and whether they are right, writer and check decide each by itself (docs/adr/0018).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, Self, cast

from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_line,
    parse_object,
)
from theatre.engine.errors import ParseError
from theatre.engine.models.episodes import (
    CriterionResult,
    EpisodeOutcome,
    InvocationStatus,
    Scored,
    Verdict,
)

FIRST, SECOND = 0, 1
"""The values of `repeat`: the calls of a first round, and of a second one. Committed repeats go on
from there."""

REPEATS = "repeats"
"""The member of an episode's facts and line about its repeats, where more than one is committed."""

EPISODE_RESULT = "episode_result"
"""What the runner of an interactive episode made of it; null where a call did not succeed."""

JUDGEMENTS = "judgements"
"""Criterion → exchanges with a judge; there where the template has judged criteria.

This and the seed are arrays, with a place for each answer, where an episode is asked repeatedly."""

JUDGE_SEED = "judge_seed"
"""What the coin draws for the order of what a judge is shown; there where `judgements` are."""


def exchanges_of(record: JsonObject) -> Iterator[JsonObject]:
    """Yield what a judge was asked about all answers of an invocation record."""
    judged: Any = record.get(JUDGEMENTS, {})
    for of_answer in judged if isinstance(judged, list) else [judged]:
        for exchanges in of_answer.values():
            yield from exchanges


@lru_cache
def members_of(form: type) -> frozenset[str]:
    """Return the members that a document of `form`, one of the classes below, must have."""
    return frozenset(one.name for one in fields(form))


@dataclass(frozen=True, slots=True)
class _Form:
    """A form whose fields hold JSON values already.

    Of each call some are made: `fields()` would take a fifth of what a document costs.
    """

    def as_document(self) -> JsonObject:
        """Return what the evidence keeps."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class _CopiedForm(_Form):
    """A form whose document shares nothing with it."""

    def as_document(self) -> JsonObject:
        """Return what is sent, or what the evidence keeps."""
        # A runner or scorer that changes what it is shown must not reach the record.
        document = {}
        for name in self.__dataclass_fields__:
            one = getattr(self, name)
            document[name] = one if type(one) in _SCALARS else _copied(one)
        return document


# Most members are scalars: a call for each would take half of what a document costs.
_SCALARS = frozenset({str, int, float, bool, type(None)})


def _copied(value: object) -> JsonValue:
    if isinstance(value, dict):
        return {name: one if type(one) in _SCALARS else _copied(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [item if type(item) in _SCALARS else _copied(item) for item in value]
    if isinstance(value, _Form | RetryPolicy):
        return value.as_document()
    return cast("JsonValue", value.value if isinstance(value, Enum) else value)


_MOST_RETRIES: Final = 10
_LONGEST_BACKOFF: Final = 3600


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often a failed call is tried again, and the first wait in seconds (then doubling).

    Raises ValueError for more than 10 retries, for a wait over an hour, and for less than none.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    max_retries: int = 2
    backoff_seconds: float = 5

    def __post_init__(self) -> None:
        if not (
            0 <= self.max_retries <= _MOST_RETRIES and 0 <= self.backoff_seconds <= _LONGEST_BACKOFF
        ):
            raise ValueError(f"expected 0 to 10 retries after 0 to 3600 seconds, got {self}")

    def as_document(self) -> JsonObject:
        """Return the policy as it is sent and stored."""
        return {"max_retries": self.max_retries, "backoff_seconds": self.backoff_seconds}


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationMetadata(_CopiedForm):
    """The engine's side of a call. `sanitised` is true only if the sanitiser really ran.

    `run_nonce` is the hex of the nonce that the log of the commitment gave; left out without one.
    """

    timeout_seconds: float = 30
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    deterministic: bool = False
    sanitised: bool = False
    invoked_at: str
    run_nonce: str | None = None

    def as_document(self) -> JsonObject:
        """Return what is sent and kept."""
        document = _CopiedForm.as_document(self)
        if self.run_nonce is None:
            del document["run_nonce"]
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleInvocationRequest(_CopiedForm):
    """What a construct receives. It never holds an expectation, a label or a path."""

    invocation_id: str
    theatre_id: str
    episode_id: str
    construct_id: str
    construct_version: str
    input_data: dict[str, Any]
    metadata: InvocationMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleInvocationResponse(_CopiedForm):
    """An answer as the engine recorded it; `latency_ms` and `responded_at` are measured here.

    `construct_id` and `construct_version` are what the construct reported, or null where it
    reported nothing readable.
    """

    invocation_id: str
    construct_id: str | None
    construct_version: str | None
    output_data: dict[str, Any] | None = None
    latency_ms: int
    status: InvocationStatus
    error_detail: str | None = None
    responded_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(_CopiedForm):
    """One try of one call.

    `reason` is a stable code where the engine, not the construct, decided the status (see
    `read_answer`; adapters add `timeout`, `crashed`, `unreachable`). `raw` holds the bytes of
    an answer that was not accepted, cut at the limit; `stderr` what the construct complained.
    `usage` is what a provider counted, `input_tokens` and `output_tokens`; left out without.
    """

    response: OracleInvocationResponse
    reason: str | None = None
    raw: str | None = None
    stderr: str | None = None
    usage: dict[str, int] | None = None

    def as_document(self) -> JsonObject:
        """Return what the evidence keeps."""
        document = _CopiedForm.as_document(self)
        if self.usage is None:
            del document["usage"]
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall(_CopiedForm):
    """One call of a construct, with every attempt at it; `adapter` is the adapter's pin."""

    hop: int
    repeat: int
    construct_id: str
    adapter: str
    version_source: str
    request: OracleInvocationRequest
    attempts: Sequence[Attempt]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord(_Form):
    """The record of one episode: `calls` are documents of `RecordedCall`, made as each ended."""

    seq: int
    episode_id: str
    sanitised: JsonObject | None
    calls: list[JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRecord(EpisodeRecord):
    """The record of an interactive episode: `runner` is the runner's pin."""

    runner: str
    episode_result: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch(_CopiedForm):
    """What the trail says of a batch: its episodes as inclusive ranges, and two digests of them.

    `records_sha256` is over the lines of the invocation records, which are in the bundle;
    `journal_sha256` over those of the journal, which the run verifies when it reads them back.
    """

    seqs: Sequence[tuple[int, int]]
    records_sha256: str
    journal_sha256: str
    statuses: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeTrouble(_Form):
    """What the trail says of an episode that ended in a failure or a refusal."""

    seq: int
    episode_id: str
    construct_id: str
    hop: int
    status: str
    reason: str | None
    error_detail: str | None


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
        return isinstance(other, InvocationRecord) and self.line == other.line

    def __hash__(self) -> int:
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

    @property
    def failures(self) -> int:
        """Return how many of its answers failed: timeouts and errors, not refusals."""
        repeats = cast("JsonObject | None", self.facts.get(REPEATS))
        if repeats is None:
            return int(self.outcome is EpisodeOutcome.MISSING)
        statuses = cast("list[str]", repeats["statuses"])
        return sum(InvocationStatus(status).failed for status in statuses)

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
        return b"".join((before[:-1], _OPENS[:-1], self.record.line[:-1], b",", behind[1:]))

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
    def from_line(cls, line: bytes) -> "EpisodeResult":
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
