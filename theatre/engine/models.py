"""The values that every stage shares: criteria, episodes, answers, scorers, results.

All of them are frozen. Documents that were committed are frozen deeply (`freeze_json`), so
"immutable after COMMITTED" is a property of the type before it is a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NewType, NoReturn, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    json_type,
    parse_object,
)
from theatre.engine.errors import DatasetError, ParseError

CriterionId = NewType("CriterionId", str)

MAX_EPISODE_BYTES = 8 * 1024 * 1024
_EPISODE_KEYS = frozenset(
    {"episode_id", "input_data", "expected_output", "labels", "cluster_key", "metadata"}
)
_GOLD_KEYS = frozenset({"episode_id", "label", "labeller", "note"})


class InvocationStatus(StrEnum):
    """How a construct's answer ended; lower case on the wire (contract/construct.md)."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    ERROR = "error"
    REFUSED = "refused"


class EpisodeOutcome(StrEnum):
    """What an episode counts as (contract/scoring.md, "Outcomes of an episode")."""

    SCORED = "scored"
    MISSING = "missing"
    EXCLUDED = "excluded"
    UNSCORED = "unscored"
    NOT_RUN = "not_run"


class Verdict(StrEnum):
    """Why a criterion has no score in an episode. Never a number: a gap is not a zero."""

    MISSING = "missing"
    EXCLUDED = "excluded"
    NOT_APPLICABLE = "not_applicable"
    DECLINED = "declined"
    UNSCORED = "unscored"
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True)
class Scored:
    """A score in billionths: 0 … 1,000,000,000. Nine decimal places, exact."""

    nano: int


CriterionResult: TypeAlias = Scored | Verdict


class TheatreCriteria(BaseModel):
    """What a theatre measures, in committed order; `weights` empty means equal weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    criteria_ids: tuple[str, ...]
    criteria_human: str = ""
    weights: dict[str, float] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruthEpisode:
    """One line of the replay dataset. `seq` counts from 1 in dataset order.

    `expected_output` is None where the line has none: then no criterion that needs an
    expectation applies.
    """

    seq: int
    episode_id: str
    input_data: JsonObject
    expected_output: JsonObject | None = None
    labels: JsonObject = field(default_factory=dict)
    cluster_key: str | None = None
    metadata: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringCase:
    """All that a scorer may see of one episode (contract/scoring.md, "Criteria and scorers").

    `expected` is the value at the criterion's `expected` path, or the whole expectation;
    `answer` the value at its `field` path, or the whole `output_data`; `hops` the output of
    every construct of a chain by id.
    """

    input_data: JsonObject
    expected: JsonValue
    answer: JsonValue
    params: JsonObject
    hops: Mapping[str, JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """A pure, versioned scoring function of the entry-point group `echelon.scorers`.

    `score` returns a number in [0, 1], or None where the criterion is undefined for this
    answer (counted as declined). It never raises on an answer, whatever that holds.
    `params_schema` is a JSON Schema for the criterion's `params`. `needs_expectation` says
    whether the criterion applies only where the dataset holds an expectation.
    """

    name: str
    version: str
    params_schema: JsonObject
    score: Callable[[ScoringCase], float | None]
    needs_expectation: bool = True

    @property
    def pin(self) -> str:
        """Return `name@version`, as it stands in the evidence."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A pure, versioned computation over a whole dataset (group `echelon.computations`).

    `compute` is given the lines of the dataset that `params` names, and `params`, valid by
    `params_schema`; its result goes into the evidence. It never raises on what the lines hold.
    """

    name: str
    version: str
    params_schema: JsonObject
    compute: Callable[[Iterable[bytes], JsonObject], JsonObject]

    @property
    def pin(self) -> str:
        """Return `name@version`, as it stands in the evidence."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def as_document(self) -> JsonObject:
        """Return the journal's form: scores as billionths, gaps by name."""
        return {
            "seq": self.seq,
            "episode_id": self.episode_id,
            "status": self.status.value,
            "outcome": self.outcome.value,
            "scores": {
                criterion: result.nano if isinstance(result, Scored) else result.value
                for criterion, result in self.scores.items()
            },
            "invocation": self.invocation,
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


ExecutionPath = Literal["replay", "market"]


def read_episodes(lines: Iterable[bytes]) -> Iterator[GroundTruthEpisode]:
    """Parse a replay dataset (JSONL), one episode a line, streaming.

    Raises DatasetError naming the line for: bad JSON, unknown or missing members, wrong
    types, an empty line, and an `episode_id` that came before.
    """
    seen: set[str] = set()
    for seq, line in enumerate(lines, start=1):
        episode = _read_episode(seq, line)
        if episode.episode_id in seen:
            raise DatasetError(
                f"line {seq}: expected a new episode_id, got {episode.episode_id[:80]!r} again"
            )
        seen.add(episode.episode_id)
        yield episode


def read_gold_labels(lines: Iterable[bytes]) -> dict[str, JsonObject]:
    """Parse a gold label set (JSONL): `episode_id` → label. Errors as `read_episodes`."""
    labels: dict[str, JsonObject] = {}
    for number, line in enumerate(lines, start=1):
        record = _read_line(number, line, _GOLD_KEYS)
        episode_id = _text(record, "episode_id", number)
        if episode_id in labels:
            raise DatasetError(
                f"line {number}: expected one label an id, got {episode_id[:80]!r} again"
            )
        _text(record, "labeller", number)
        if "note" in record:
            _text(record, "note", number)
        labels[episode_id] = _object(record, "label", number)
    return labels


def _read_episode(seq: int, line: bytes) -> GroundTruthEpisode:
    record = _read_line(seq, line, _EPISODE_KEYS)
    return GroundTruthEpisode(
        seq=seq,
        episode_id=_text(record, "episode_id", seq),
        input_data=_object(record, "input_data", seq),
        expected_output=(
            _object(record, "expected_output", seq) if "expected_output" in record else None
        ),
        labels=_object(record, "labels", seq) if "labels" in record else {},
        cluster_key=_text(record, "cluster_key", seq) if "cluster_key" in record else None,
        metadata=_object(record, "metadata", seq) if "metadata" in record else {},
    )


def _read_line(number: int, line: bytes, known: frozenset[str]) -> JsonObject:
    try:
        record = parse_object(line, max_bytes=MAX_EPISODE_BYTES, max_depth=MAX_INPUT_DEPTH)
    except ParseError as error:
        raise DatasetError(f"line {number}: {error}") from error
    unknown = sorted(set(record) - known)
    if unknown:
        raise DatasetError(
            f"line {number}: expected only {', '.join(sorted(known))}; "
            f"got {', '.join(unknown)[:200]}"
        )
    return record


def _text(record: JsonObject, key: str, number: int) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value:
        seen = "an empty one" if value == "" else json_type(value)
        raise DatasetError(f"line {number}: expected {key} as a string, got {seen}")
    return value


def _object(record: JsonObject, key: str, number: int) -> JsonObject:
    value = record.get(key)
    if not isinstance(value, dict):
        raise DatasetError(f"line {number}: expected {key} as an object, got {json_type(value)}")
    return value


class FrozenObject(dict[str, JsonValue]):
    """A JSON object that cannot be changed; still a dict for serialisers and schemas."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a committed document cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, _: object) -> Self:
        """Return the object itself: there is nothing to protect a copy from."""
        return self


class FrozenArray(list[JsonValue]):
    """A JSON array that cannot be changed; still a list for serialisers and schemas."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a committed document cannot be changed")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, _: object) -> Self:
        """Return the array itself."""
        return self


def freeze_json(value: JsonValue) -> JsonValue:
    """Return a deep copy of `value` that nobody can change."""
    if isinstance(value, dict):
        return FrozenObject({key: freeze_json(item) for key, item in value.items()})
    if isinstance(value, list):
        return FrozenArray(freeze_json(item) for item in value)
    return value


def freeze_object(value: JsonObject) -> JsonObject:
    """Return `freeze_json` of an object, typed as one."""
    return cast("JsonObject", freeze_json(value))


def sequence_ranges(sequences: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending `sequences` as inclusive ranges: 1, 2, 3, 7 → (1, 3), (7, 7)."""
    ranges: list[tuple[int, int]] = []
    for seq in sequences:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges
