"""Runs of the scripted debater, for tests."""

import asyncio
from pathlib import Path
from typing import Any

from theatre.debate.debaters import Debater
from theatre.debate.models import Debate, EvaluationMode, counting_clock
from theatre.debate.runner import DebateRun, RunPlan
from theatre.debate.scripted import Disposition, Scenario, ScriptedDebater, read_scenario
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object

FIXTURES = Path(__file__).parents[3] / "fixtures" / "debates"


def scenario(name: str = "wool_prices_after_the_drought") -> Scenario:
    return read_scenario(parse_object((FIXTURES / "scenarios" / f"{name}.json").read_bytes()))


def plan(**members: Any) -> RunPlan:  # noqa: ANN401  # the plan's own members
    given: dict[str, Any] = {
        "debate_id": "wool_prices_after_the_drought",
        "run_id": "6f1d8b0e-0d53-4f6e-8f0e-35d6f0a1b2c3",
        "scenario": scenario().public(),
        "participants": [("ann", "analyst"), ("bo", "critic")],
        "rounds": 2,
        "mode": "in_loop",
        "run_metadata": {"generation_mode": "mock"},
        **members,
    }
    return RunPlan(**given)


def run_with(debater: Debater, **members: Any) -> tuple[JsonObject, list[JsonObject]]:  # noqa: ANN401  # see above
    """Return the artefact and the log of a run in which one debater speaks for everybody."""
    entries: list[JsonObject] = []
    run = DebateRun(plan(**members), counting_clock(), entries.append)
    artefact = asyncio.run(run.run({"ann": debater, "bo": debater}))
    return artefact, entries


def scripted(
    seed: int = 1,
    *,
    mode: EvaluationMode = "in_loop",
    disposition: Disposition | None = None,
    **members: Any,  # noqa: ANN401  # see above
) -> JsonObject:
    debater = ScriptedDebater(scenario(), disposition or Disposition(), seed)
    return run_with(debater, mode=mode, **members)[0]


def valid(document: JsonObject) -> Debate:
    artefact = read_debate(canonical_bytes(document))
    assert [one for one in artefact.warnings if one.code == "W_PID_REPLAY"] == []
    return artefact.debate
