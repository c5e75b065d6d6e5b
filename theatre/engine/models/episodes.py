"""Episodes and labels read from their datasets, how they end, and documents that cannot change."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, NamedTuple, NoReturn, Self, TypeAlias, cast

from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    json_type,
    parse_object,
)
from theatre.engine.errors import DatasetError, ParseError
from theatre.engine.schema_registry import Quoted, phrase

MAX_EPISODE_BYTES = 8 * 1024 * 1024
_EPISODE_KEYS = frozenset(
    {"episode_id", "input_data", "expected_output", "labels", "cluster_key", "metadata"}
)
_GOLD_KEYS = frozenset({"episode_id", "label", "labeller", "note"})


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
    line: bytes = field(default=b"", compare=False, repr=False)
    """The bytes of its line in the dataset, without the line feed."""


def read_episodes(
    lines: Iterable[bytes], *, max_bytes: int = MAX_EPISODE_BYTES, first: int = 1
) -> Iterator[GroundTruthEpisode]:
    """Parse a replay dataset (JSONL), one episode of at most `max_bytes` a line, streaming.

    `first` is the number of the first line, and its episode's `seq`.
    Raises DatasetError naming the line for: bad JSON, a line that is too long, unknown or
    missing members, wrong types, an empty line, and an `episode_id` that came before.
    """
    seen: set[str] = set()
    for seq, line in enumerate(lines, start=first):
        if len(line) > max_bytes:
            raise DatasetError(
                f"line {seq}: expected at most {max_bytes} bytes, got {len(line)}: every call of "
                "the episode repeats its input"
            )
        episode = _read_episode(seq, line)
        if episode.episode_id in seen:
            raise DatasetError(
                phrase(
                    f"line {seq}: expected a new episode_id, got ",
                    Quoted(episode.episode_id[:80], spelt=repr),
                    " again",
                )
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
                phrase(
                    f"line {number}: expected one label an id, got ",
                    Quoted(episode_id[:80], spelt=repr),
                    " again",
                )
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
        line=line,
    )


def _read_line(number: int, line: bytes, known: frozenset[str]) -> JsonObject:
    try:
        record = parse_object(line, max_bytes=MAX_EPISODE_BYTES, max_depth=MAX_INPUT_DEPTH)
    except ParseError as error:
        raise DatasetError(phrase(f"line {number}: ", Quoted(error, spelt=str))) from error
    if not known.issuperset(record):
        unknown = sorted(set(record) - known)
        raise DatasetError(
            phrase(
                f"line {number}: expected only {', '.join(sorted(known))}; got ",
                Quoted(", ".join(unknown)[:200], spelt=str),
            )
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


# How answers end, what episodes count as, and what is measured in them.


ExecutionPath = Literal["replay", "market"]


class InvocationStatus(StrEnum):
    """How a construct's answer ended; lower case on the wire (docs/contract/construct.md)."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    ERROR = "error"
    REFUSED = "refused"

    @property
    def failed(self) -> bool:
        """Return whether there was neither an answer nor a refusal."""
        return self in (InvocationStatus.TIMEOUT, InvocationStatus.ERROR)


class EpisodeOutcome(StrEnum):
    """What an episode counts as (docs/contract/scoring.md §1)."""

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


class Scored(NamedTuple):
    """A score in billionths: 0 … 1,000,000,000. Nine decimal places, exact."""

    nano: int


CriterionResult: TypeAlias = Scored | Verdict


@dataclass(frozen=True, kw_only=True)
class TheatreCriteria:
    """What a theatre measures, in committed order; `weights` empty means equal weights."""

    # A plain class, which pydantic reads all the same: authors import this package, and wait for
    # it. What its docstring says stands in the description of the interface.
    __pydantic_config__: ClassVar = {"extra": "forbid"}

    criteria_ids: tuple[str, ...]
    criteria_human: str = ""
    weights: dict[str, float] = field(default_factory=dict)


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
        return self


def freeze_json(value: JsonValue) -> JsonValue:
    """Return an immutable deep copy of `value`."""
    if isinstance(value, dict):
        return FrozenObject({key: freeze_json(item) for key, item in value.items()})
    if isinstance(value, list):
        return FrozenArray(freeze_json(item) for item in value)
    return value


def freeze_object(value: JsonObject) -> JsonObject:
    """Return `freeze_json` of an object, typed as one."""
    return cast("JsonObject", freeze_json(value))
