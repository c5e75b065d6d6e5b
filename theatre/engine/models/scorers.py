"""What plays, judges and scores an episode, or computes over a dataset: versioned plug-ins."""

import copy
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, TypeVar

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import UnaskedError

# What turns one episode into several calls: a pure, versioned plug-in.


SINGLE_CALL = "single_call"
"""The `episode_runner` of a template that asks for none."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of an episode: the construct at place `hop` of the chain, and what it is sent."""

    hop: int
    input_data: JsonObject


EpisodePlay: TypeAlias = Generator[JsonObject | Turn, JsonObject, JsonObject]
"""Yields what a construct is sent, is sent what it answered, returns what scorers see.

What is yielded without a `Turn` round it goes to the first construct.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRunner:
    """A pure, versioned runner of interactive episodes (group `echelon.episode_runners`).

    `play` is given the episode's input and a seed, and makes one call at least and `max_calls`
    at most, the first of them to the first of its `constructs`, which are as many as the chain
    has. The same answers give the same requests and the same result: the check plays every
    episode again. It never raises on an answer, whatever that holds. `own_words` are the members of
    the result that hold what a construct said, as it said it, and nothing that the play made of it.
    `input_schema` is the JSON Schema of an input, with no member that `play` does not look at: by
    such a one a copy would pass for another question.
    """

    name: str
    version: str
    max_calls: int
    play: Callable[[JsonObject, str], EpisodePlay]
    constructs: int = 1
    own_words: frozenset[str] = frozenset()
    input_schema: JsonObject = field(default_factory=dict)

    @property
    def pin(self) -> str:
        """Return `name@version`, as written in the evidence."""
        return f"{self.name}@{self.version}"


def turn_of(asked: JsonObject | Turn) -> Turn:
    """Return the call that a play asks for."""
    return asked if isinstance(asked, Turn) else Turn(0, asked)


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


def judge_providers(params: object) -> frozenset[str]:
    """Return the providers that a scorer's parameters commit to: of its judge, or of a panel's."""
    named = (one.get("provider") for one in judges_of(params))
    return frozenset(one for one in named if isinstance(one, str))


def judge_passes(params: object) -> int:
    """Return how often an answer is judged by a scorer's parameters: by all judges together."""
    return sum(map(repeats_of, judges_of(params)))


def repeats_of(judge: JsonObject) -> int:
    """Return how often a judge is asked about an answer: once, where it does not say."""
    repeats = judge.get("repeats")
    return int(repeats) if isinstance(repeats, int | float) else 1


def judges_of(params: object) -> list[JsonObject]:
    """Return the judges of a scorer's parameters, in order: those of a panel, or the one.

    None where the parameters, which need not be valid, name none.
    """
    known = params if isinstance(params, dict) else {}
    panel = known.get("panel")
    judges = panel.get("judges") if isinstance(panel, dict) else [known.get("judge")]
    return [one for one in (judges if isinstance(judges, list) else []) if isinstance(one, dict)]


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


# What scores, and what computes.


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringCase:
    """All that a scorer may see of one episode (docs/contract/scoring.md §2).

    `expected` is the value at the criterion's `expected` path, or the whole expectation;
    `answer` the value at its `field` path, or the whole `output_data`; `hops` the output of
    every construct of a chain by id; `exchanges` what a judge was asked about this criterion,
    and what came of it; `judge_seed` what the coin draws for the order of what he is shown.
    """

    input_data: JsonObject
    expected: JsonValue
    answer: JsonValue
    params: JsonObject
    hops: Mapping[str, JsonObject]
    exchanges: Sequence[JsonObject] = ()
    judge_seed: str = ""


class ScorerKind(StrEnum):
    """What a score rests on (docs/scorers.md, "Kinds"); it belongs to the name, not the version."""

    EXACT = "exact"
    """Values checked against committed values, or against a rule that needs no reading."""
    TEXTUAL = "textual"
    """Words of a text, which can be written without what they say being so."""
    JUDGED = "judged"
    """The recorded answer of a model that was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """A pure, versioned scoring function of the entry-point group `echelon.scorers`.

    `score` returns a number in [0, 1], or None where the criterion is undefined for this
    answer (counted as declined). It never raises on an answer, whatever that holds.
    `params_schema` is a JSON Schema for the criterion's `params`. `needs_expectation` says
    whether the criterion applies only where the dataset holds an expectation. `judgement`, where
    a judge is needed, says what it is asked, and never raises. Then `score` is a function of
    the recorded exchanges, too, and `kind` is `judged`; of no other scorer it is. There is no
    default for `kind`: a scorer that does not say what it rests on cannot be registered.
    `one_for_all`, given expectations and `params`, returns the one answer that is right for as many
    as possible, or None; only where that may be none of the expectations.
    """

    name: str
    version: str
    kind: ScorerKind
    params_schema: JsonObject
    score: Callable[[ScoringCase], float | None]
    one_for_all: Callable[[Sequence[JsonValue], JsonObject], JsonValue] | None = None
    needs_expectation: bool = True
    judgement: Callable[[ScoringCase], Judgement] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a kind that is none, or that says of a judge what is not so."""
        if (ScorerKind(self.kind) is ScorerKind.JUDGED) is not (self.judgement is not None):
            raise ValueError(f"expected kind judged exactly with a judgement, got {self.kind}")

    @property
    def pin(self) -> str:
        """Return `name@version`, as written in the evidence."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A pure, versioned computation over a whole dataset (group `echelon.computations`).

    `compute` is given the lines that its step computes over, and `params`, valid by
    `params_schema`; its result goes into the evidence. It never raises on what the lines hold.
    `kind` says what the result rests on, as a scorer's does; no tier follows from a computation.
    """

    name: str
    version: str
    kind: ScorerKind
    params_schema: JsonObject
    compute: Callable[[Iterable[bytes], JsonObject], JsonObject]

    @property
    def pin(self) -> str:
        """Return `name@version`, as written in the evidence."""
        return f"{self.name}@{self.version}"


# What a run needs of a sanitiser; the one that ships is in `theatre.oracles.sanitise`.


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisedInput:
    """An episode's input, made safe to be sent: `value`, and the `record` that evidence keeps.

    `wrong_keys` are pointers to members whose names would have to change. Names are never
    changed silently: an input that has any is not sent.
    """

    value: JsonObject
    record: JsonObject
    wrong_keys: tuple[str, ...]


class InputSanitiser(Protocol):
    """A pure, versioned function over inputs (docs/contract/construct.md §7)."""

    @property
    def version(self) -> str:
        """Return `name/version`, as the evidence keeps it."""

    def sanitise(
        self,
        value: JsonObject,
        *,
        role_markers: Literal["break", "flag"],
        raw_fields: tuple[str, ...],
    ) -> SanitisedInput:
        """Return what is sent instead of `value`, and what was changed."""
