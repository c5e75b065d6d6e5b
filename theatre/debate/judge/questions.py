"""What a judge is shown of a turn, by which rubric, and which answers fit."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from theatre.debate.blind import BlindDebate, BlindTurn
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.judging.rubrics import MAX_TOKENS, Limit, Rubrics, array_of, object_of, one_of

MAX_TURNS = 100
"""How many turns of a debate are asked about, from the first."""

TEXT_CHARACTERS, EARLIER_TURNS, EARLIER_CHARACTERS = 20_000, 8, 1_000
"""How much of each text of the turn is shown, and of how many turns before it how much."""

VALIDITY: Final[Mapping[str, float | None]] = {
    "sound": 1.0,
    "partly": 0.5,
    "unsound": 0.0,
    "no_argument": None,
}
CREDIBILITY: Final[Mapping[str, float]] = {"good": 1.0, "partly": 0.5, "poor": 0.0}
FOLLOWS: Final[Mapping[str, bool | None]] = {"yes": True, "no": False, "not_stated": None}
RUNGS: Final[Mapping[str, str | None]] = {"L1": "L1", "L2": "L2", "L3": "L3", "none": None}
FAULTS: Final = (
    "FALSIFIER_MISSING",
    "UNSUPPORTED_CLAIMS",
    "PREMATURE_CERTAINTY",
    "CONTRADICTION",
    "TRACE_OUTPUT_MISMATCH",
    "IGNORED_CRITIQUE",
    "SYCOPHANTIC_FLIP",
    "STUBBORN",
    "RUNG_COLLAPSE",
    "NONSENSE",
)

TURN: Final = "turn"
"""The one rubric."""

RUBRICS: Final = Rubrics(
    package=__package__,
    schemas={
        TURN: object_of(
            validity=one_of(VALIDITY),
            credibility=one_of(CREDIBILITY),
            answer_follows=one_of(FOLLOWS),
            rung=one_of(RUNGS),
            faults=array_of(one_of(FAULTS)),
        )
    },
    parser="2",
    limits={
        "max_tokens": Limit.fixed(MAX_TOKENS),
        "turns": Limit.fixed(MAX_TURNS),
        "text_characters": Limit.fixed(TEXT_CHARACTERS),
        "earlier_turns": Limit.fixed(EARLIER_TURNS),
        "earlier_characters": Limit.fixed(EARLIER_CHARACTERS),
    },
)


def list_turns(debate: BlindDebate) -> Sequence[JsonObject]:
    """Return what a judge is shown of each turn that it is asked about, in order.

    Speakers are numbers, as they come: a name may influence the judge.
    """
    numbers: dict[str, int] = {}
    following = count(1)
    for turn in debate.turns:
        if turn.speaker_id not in numbers:
            numbers[turn.speaker_id] = next(following)
    return [
        _shown(turn, debate.turns[:place], numbers)
        for place, turn in enumerate(debate.turns[:MAX_TURNS])
    ]


def _shown(turn: BlindTurn, before: Sequence[BlindTurn], numbers: Mapping[str, int]) -> JsonObject:
    advice = turn.recommendation
    texts = {
        "text": turn.content,
        "reasoning": turn.reasoning,
        "final_answer": turn.final_answer,
        "raw_text": advice.raw_text if advice else None,
    }
    cut = {name: text[:TEXT_CHARACTERS] if text else text for name, text in texts.items()}
    raw_text = cut.pop("raw_text")
    earlier: list[JsonValue] = [
        {
            "speaker": numbers[one.speaker_id],
            "action": one.action,
            "text": one.content[:EARLIER_CHARACTERS],
        }
        for one in before[-EARLIER_TURNS:]
    ]
    return {
        "turn": {
            "speaker": numbers[turn.speaker_id],
            "action": turn.action,
            "recommendation": {**advice.model_dump(), "raw_text": raw_text} if advice else None,
            **cut,
        },
        "earlier": earlier,
        "earlier_omitted": max(0, len(before) - EARLIER_TURNS),
        "characters_omitted": sum(
            max(0, len(text) - TEXT_CHARACTERS) for text in texts.values() if text
        ),
    }
