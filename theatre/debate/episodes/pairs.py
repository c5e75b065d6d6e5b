"""A case debated twice, without control and in the loop, as rows of true and false answers."""

from __future__ import annotations

from dataclasses import dataclass

from theatre.debate.actions import DIRECTION, parse_action
from theatre.debate.episodes.artefacts import debate_at
from theatre.debate.evaluators.raudit import Transitions, transitions
from theatre.debate.models import Debate
from theatre.engine.canonical_json import JsonValue

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
