"""Small debates for tests, and how to change one."""

import copy
import json
from collections.abc import Mapping
from typing import Any

from theatre.debate.errors import InvalidDebateError
from theatre.debate.models import Debate, Finding
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, parse_object

ADVICE: JsonObject = {
    "action": "BUY",
    "position_size_pct_min": 3,
    "position_size_pct_max": 5.5,
    "horizon_days_min": 90,
    "horizon_days_max": 180,
    "conviction": 0.7,
    "raw_text": "BUY | SIZE 3-5.5% | HORIZON 3-6 months",
}
RUN_ID = "0b3c6c9e-6f0e-4b7e-9f2a-5d8a3a1c7e44"


def attempt(index: int, **members: object) -> dict[str, Any]:
    return {
        "attempt_index": index,
        "timestamp": f"2026-01-05T10:0{index}:00Z",
        "content": f"try {index}",
        "final_answer": "BUY",
        "recommendation": ADVICE,
        "control_state": {"retry_count": index},
        **members,
    }


def a_debate(**members: object) -> dict[str, Any]:
    """Two agents, three turns, two attempts at the second; unknown members here and there."""
    debate = {
        "schema_version": "2.0.0",
        "debate_id": "wool_prices",
        "run_id": RUN_ID,
        "evaluation_mode": "in_loop",
        "run_metadata": {"generation_mode": "mock", "seed": 7, "reasoning_regime": "natural"},
        "metadata": {"created_at": "2026-01-05T10:00:00+01:00"},
        "participants": [
            {"agent_id": "ann", "role": "analyst", "shoe_size": 38},
            {"agent_id": "bo", "role": "critic"},
        ],
        "turns": [
            {"turn_id": "t0", "turn_index": 0, "speaker_id": "ann", "content": "Prices rise."},
            {
                "turn_id": "t1",
                "turn_index": 1,
                "speaker_id": "bo",
                "round_index": 1,
                "content": "try 1",
                "recommendation": ADVICE,
                "attempts": [attempt(0), attempt(1)],
            },
            {"turn_id": "t2", "turn_index": 2, "speaker_id": "ann", "content": "So be it."},
        ],
        "intervention_log": [
            {
                "turn_index": 1,
                "speaker_id": "bo",
                "trigger": "crit",
                "instruction_sent": "Give a reason.",
                "timestamp": "2026-01-05T10:00:30Z",
            }
        ],
    }
    return {**copy.deepcopy(debate), **members}


def changed(pointer: str, value: object, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a debate with the member at `pointer` set, or removed where `value` is `...`."""
    debate = copy.deepcopy(dict(base or a_debate()))
    *parents, last = pointer.split("/")[1:]
    place: Any = debate
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    if value is ...:
        del place[int(last) if isinstance(place, list) else last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return debate


def as_bytes(debate: object) -> bytes:
    return json.dumps(debate).encode()


def read(debate: object) -> Debate:
    return read_debate(as_bytes(debate)).debate


def found(debate: object, *, lenient: bool = False) -> list[tuple[str, str, str]]:
    """Return rule, code and pointer of everything that reading says, warnings included."""
    return [(one.rule, one.code, one.pointer) for one in findings(debate, lenient=lenient)]


def findings(debate: object, *, lenient: bool = False) -> tuple[Finding, ...]:
    data = debate if isinstance(debate, bytes) else as_bytes(debate)
    try:
        return read_debate(data, lenient=lenient).warnings
    except InvalidDebateError as error:
        return error.findings


def document(debate: object) -> dict[str, Any]:
    return parse_object(as_bytes(debate))
