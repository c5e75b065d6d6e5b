"""What a judge is shown of a turn, by which rubric, and which answers fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import count
from typing import Final

from theatre.debate.blind import BlindDebate, BlindTurn
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.judging import messages

PARSER = "1"
"""The version of what is asked besides the rubric, and of how answers are read and counted."""

RUBRIC: Final = files(__package__).joinpath("prompts", "turn.md").read_text(encoding="utf-8")
PROMPTS_SHA256: Final = canonical_sha256({"turn": RUBRIC})

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

_VERDICTS: Final[dict[str, JsonValue]] = {
    **{
        name: {"type": "string", "enum": [*values]}
        for name, values in (
            ("validity", VALIDITY),
            ("credibility", CREDIBILITY),
            ("answer_follows", FOLLOWS),
            ("rung", RUNGS),
        )
    },
    "faults": {"type": "array", "items": {"type": "string", "enum": [*FAULTS]}},
}
ANSWER_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": False,
    "required": [*_VERDICTS],
    "properties": _VERDICTS,
}
"""Sent to the API; answers are checked against it."""


def request(judge: JsonObject, data: JsonObject) -> JsonObject:
    """Return the request that has `judge` look at `data`."""
    return messages.request(RUBRIC, ANSWER_SCHEMA, judge, data)


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
