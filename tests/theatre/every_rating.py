"""One run with everything that people and failing steps can leave, for tests of the check.

A computation whose output does not fit and leads on, a step that is skipped, a rating that
nobody finishes in time, one that three people finish (a fourth does not, others are refused), a
computation in the aggregate, and a rating behind that.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from tests.theatre.rated_runs import (
    AGGREGATE,
    details,
    later,
    rate,
    rated_stage,
    rating,
    rubric_step,
    trail_of,
)
from tests.theatre.runs import ERROR, REFUSED, WRONG, ScriptedAdapter, answer_as_asked, episodes
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import HumanScoreRefusedError

GRACE, EDSGER, NIKLAUS = "Grace", "Edsger", "Niklaus"
BARBARA = "Barbara"
"""Who scored but one item: her score stands in the file and counts nowhere."""

AUTHOR = "Ada Author"
SHORT, LONG = 60, 3600

MISFIT: JsonObject = {
    "step_id": "provenance",
    "type": "deterministic_computation",
    "input_spec": {
        "computation": "provenance_chain",
        "params": {"required": ["hops.pilot.colour"]},
        "in_aggregate": True,
    },
    "output_spec": {"properties": {"records": {"maximum": 3}}},
    "escalation_path": "late",
}
FITTING = {key: value for key, value in MISFIT.items() if not key.startswith(("out", "esc"))}
STEPS: list[JsonObject] = [
    MISFIT,
    FITTING | {"step_id": "never"},
    rubric_step("late", timeout_seconds=SHORT, escalation_path="taste"),
    rubric_step(timeout_seconds=LONG),
    FITTING | {"step_id": "filled"},
    AGGREGATE,
    rubric_step("after"),
]
UNCOUNTED = {key: value for key, value in rating().items() if key not in {"share", "criterion_id"}}
RATINGS: list[JsonObject] = [
    UNCOUNTED | {"step_id": "late", "items": 2},
    rating(items=10),
    UNCOUNTED
    | {"step_id": "after", "identity_separation": {"scorer_must_not_be_author": False}, "items": 1},
]


def scores_of(items: list[str]) -> Mapping[str, dict[str, JsonValue]]:
    """Return what everybody gives to the items of the main rating, on its scale from 1 to 5."""
    return {
        GRACE: {item: n % 5 + 1 for n, item in enumerate(items)},
        EDSGER: {item: (n + n // 7) % 5 + 1 for n, item in enumerate(items)},
        NIKLAUS: {item: 5 - n % 3 / 2 for n, item in enumerate(items)},
        BARBARA: {items[3]: 2},
    }


def run_every_rating(folder: Path) -> Path:
    """Run it to its end and return the sealed bundle."""
    answers = {2: WRONG, 4: WRONG, 6: ERROR, 9: REFUSED}
    stage = rated_stage(folder, episodes(14, answers), steps=STEPS, ratings=RATINGS)

    def opened() -> list[str]:
        finished = stage.run(ScriptedAdapter(answer_as_asked))
        items = details(finished.trail, "hitl_opened")[-1]["items"]
        return cast("list[str]", items)

    rate(stage, GRACE, {opened()[0]: 3})
    later(stage, 2 * SHORT)
    for scorer, scores in scores_of(opened()).items():
        rate(stage, scorer, scores)
    items = opened_items(trail_of(stage), "taste")
    cleaned = f"{items[0]}\x00"
    for scorer, item, score in (
        (GRACE, items[0], 3),
        (GRACE, cleaned, 3),
        (AUTHOR, items[0], 3),
        (BARBARA, items[0], 6),
        (BARBARA, items[0], "high"),
    ):
        try:
            rate(stage, scorer, {item: score})
        except HumanScoreRefusedError:
            continue
        raise AssertionError(f"expected the score of {scorer} to be refused")
    rate(stage, AUTHOR, dict.fromkeys(opened(), 4))
    finished = stage.run(ScriptedAdapter())
    assert finished.bundle.is_dir(), finished.resolution
    return finished.bundle


def opened_items(trail: list[JsonObject], step_id: str) -> list[str]:
    """Return the items that people were asked about at one step."""
    (opened,) = (one for one in details(trail, "hitl_opened") if one["step_id"] == step_id)
    return cast("list[str]", opened["items"])
