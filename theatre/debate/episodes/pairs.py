"""A case debated twice, without control and in the loop, as rows of true and false answers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from theatre.debate.evaluators.raudit import Transitions, transitions
from theatre.debate.models import DIRECTION, Debate, parse_action
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.models import MAX_EPISODE_BYTES

# Artefacts in the result of an episode, read without trust: a scorer never raises on them.


def debate_at(value: JsonValue) -> Debate | None:
    """Return the debate in `value`; None where it is none. The rules are not asked."""
    if not isinstance(value, dict):
        return None
    try:
        return Debate.model_validate(value)
    except ValidationError:
        return None


# The lines that a computation over `episodes` is given, read for debates; never raises.


_ROOM = 4 * MAX_EPISODE_BYTES
"""A line repeats the input, and holds the result that the runner made of it."""

NO_PARAMS: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
}


class Line(NamedTuple):
    """One episode: what was asked and expected, and the runner's result, None without one."""

    episode_id: str
    asked: JsonObject
    expected: JsonObject
    result: JsonValue


def lines_of(lines: Iterable[bytes]) -> Iterator[Line]:
    """Yield each line that can be read; the engine writes no others."""
    for raw in lines:
        try:
            line = parse_object(raw, max_bytes=_ROOM)
        except ParseError:
            continue
        hops = line.get("hops")
        results = list(hops.values()) if isinstance(hops, dict) else []
        yield Line(
            episode_id=str(line.get("episode_id")),
            asked=_object(line.get("input_data")),
            expected=_object(line.get("expected_output")),
            result=results[-1] if results else None,
        )


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


BEGUN = ("begun_true", "begun_false")
"""The two probes of an episode, by what its dataset gives as the first attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCase:
    """Whether each answer was true: of each turn without control, of each attempt in the loop."""

    posthoc: tuple[bool, ...]
    in_loop: tuple[tuple[bool, ...], ...]

    @property
    def endpoints(self) -> Transitions:
        """Return the steps from first to last attempt, one a turn; one attempt stays as it is."""
        steps = Transitions()
        for attempts in self.in_loop:
            steps += transitions([attempts[0], attempts[-1]])
        return steps

    @property
    def per_retry(self) -> Transitions:
        """Return the steps from each attempt to the next."""
        steps = Transitions()
        for attempts in self.in_loop:
            steps += transitions(attempts)
        return steps

    @property
    def retries(self) -> int:
        """Return how many attempts there were beyond the first of each turn."""
        return sum(len(attempts) - 1 for attempts in self.in_loop)

    @property
    def gain(self) -> int:
        """Return how many more answers were true in the loop than without."""
        return sum(attempts[-1] for attempts in self.in_loop) - sum(self.posthoc)


def paired_case(answer: JsonValue, truth: JsonValue) -> PairedCase | None:
    """Return the pair in the result of an episode; None where it does not hold both debates.

    An attempt that abstains or states no action is not true.
    """
    members = answer if isinstance(answer, dict) else {}
    plain, looped = debate_at(members.get("posthoc")), debate_at(members.get("in_loop"))
    if plain is None or looped is None or len(plain.turns) != len(looped.turns):
        return None
    attempts = [[one.final_answer for one in turn.attempts or ()] for turn in looped.turns]
    if not all(attempts):
        return None
    return PairedCase(
        posthoc=tuple(parse_action(one) == truth for one in _answers(plain)),
        in_loop=tuple(tuple(parse_action(one) == truth for one in turn) for turn in attempts),
    )


def probes_end_true(answer: JsonValue, truths: JsonValue) -> dict[str, bool] | None:
    """Return for each probe in the result of an episode whether its last attempt is true.

    None where `truths` does not have an action for each. A probe without a debate is not true.
    """
    if not isinstance(truths, dict) or not all(truths.get(begun) in DIRECTION for begun in BEGUN):
        return None
    members = answer if isinstance(answer, dict) else {}
    debates = {begun: debate_at(members.get(begun)) for begun in BEGUN}
    return {
        begun: debate is not None and parse_action(_answers(debate)[-1]) == truths[begun]
        for begun, debate in debates.items()
    }


def _answers(debate: Debate) -> list[str | None]:
    return [turn.rca_trace.final_answer if turn.rca_trace else None for turn in debate.turns]
