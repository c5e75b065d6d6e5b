"""`echelon plan`: the size that it names gives the wanted width, and it says what that costs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.theatre.forked_echelon import forked
from tests.theatre.repeated_runs import at_random, repeated_stage, share
from tests.theatre.runs import (
    TEMPLATE,
    Finished,
    ScriptedAdapter,
    episodes,
    pilot_stage,
    with_changes,
)
from theatre.cli.plan_command import most_repeats
from theatre.engine.errors import PilotError
from theatre.engine.scoring.planning import Pilot, WidthPlan

ANSWERS = [
    [float(share(f"{item} {n}") < share(f"skill {item}")) for n in range(4)] for item in range(300)
]


def test_the_planned_size_has_the_width_in_runs_of_the_true_construct() -> None:
    """The truth behind the pilot: chances spread evenly, so b = 1/12 and w = 1/6."""
    pilot = Pilot.of(ANSWERS)
    assert pilot.within is not None
    assert pilot.between == pytest.approx(1 / 12, abs=0.03)
    assert pilot.within == pytest.approx(1 / 6, abs=0.03)
    rng = np.random.Generator(np.random.PCG64(5))
    for size in WidthPlan(pilot, 0.2, seed=1).sizes(4):
        skills = rng.random((400, size.items))
        means = rng.binomial(size.repeats, skills) / size.repeats
        widths = 2 * 1.96 * means.std(axis=1, ddof=1) / size.items**0.5
        # A little below: the width is to hold in four runs of five, not in every other one.
        assert np.median(widths) == pytest.approx(0.19, abs=0.012)


def test_repeats_and_episodes_are_traded_by_the_two_variances() -> None:
    sizes = WidthPlan(Pilot.of(ANSWERS), 0.1, seed=1).sizes(5)
    items = [size.items for size in sizes]
    assert items == sorted(items, reverse=True)
    assert [size.repeats for size in sizes] == [1, 2, 3, 4, 5]
    # With answers that vary less than episodes do, no repeat is ever the cheaper one.
    assert [size.answers for size in sizes] == sorted(size.answers for size in sizes)


def test_the_same_seed_gives_the_same_plan() -> None:
    first, second, other = (
        WidthPlan(Pilot.of(ANSWERS), 0.15, seed=seed).sizes(2) for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_a_pilot_in_which_nothing_varies_is_no_pilot() -> None:
    with pytest.raises(PilotError, match="whose scores vary"):
        Pilot.of([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(PilotError, match="two scored episodes"):
        Pilot.of([[1.0, 0.0]])
    # Thirty of thirty right are not certain to be right for ever.
    assert Pilot.of([[1.0]] * 30).between > 0


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, 5),
        ({"/execution_policy/deterministic_sample": 1}, 1),
        ({"/scoring/criteria_scorers/colour": {
            "scorer": "llm_judge", "params": {"judge": {"repeats": 2}}}}, 2),
    ],
)  # fmt: skip
def test_no_more_repeats_are_planned_than_can_be_committed(
    changes: dict[str, Any], most: int
) -> None:
    assert most_repeats(with_changes(TEMPLATE, changes), 5) == most


def planned(finished: Finished, folder: Path, *options: str) -> dict[str, Any]:
    template = folder / "planned.json"
    template.write_text(json.dumps(finished.document("template.json")), encoding="utf-8")
    answer = forked("plan", template, "--pilot", finished.bundle, *options, "--json", home=folder)
    assert answer.code == 0, answer.stderr
    document: dict[str, Any] = answer.document
    return document


def test_a_plan_counts_calls_and_time_of_its_pilot(tmp_path: Path) -> None:
    finished = repeated_stage(tmp_path, 16, 2).run(ScriptedAdapter(at_random))
    document = planned(finished, tmp_path, "--width", "0.3", "--criterion", "colour")
    assert document["pilot"]["repeats"] == 2
    assert document["pilot"]["items"] == 16
    for size in document["sizes"]:
        assert size["answers"] == size["repeats"] * size["items"]
        assert (size["calls"], size["judge_calls"]) == (size["answers"], 0)
        assert size["seconds"] == pytest.approx(0.007 * size["answers"], abs=0.06)
        assert (size["cost_usd"], size["input_tokens"]) == (None, None)
        assert size["expected_width"] <= 0.3
    assert document["fewest_answers"] == min(
        document["sizes"], key=lambda size: (size["answers"], size["items"])
    )


def test_of_a_pilot_that_asked_once_only_episodes_are_planned(tmp_path: Path) -> None:
    finished = pilot_stage(tmp_path, episodes(8)).run(ScriptedAdapter(at_random))
    document = planned(finished, tmp_path, "--width", "0.4")
    assert [size["repeats"] for size in document["sizes"]] == [1]
    assert document["pilot"]["within_item_variance"] is None
