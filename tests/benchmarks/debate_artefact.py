"""Prints how long reading, checking and evaluating one debate of 10,000 turns takes.

`python -m tests.benchmarks.debate_artefact [TURNS] [ROUNDS]`.
"""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from tests.benchmarks.figures import seconds_of, show, sizes
from theatre.debate.evaluators import EVALUATORS
from theatre.debate.history import find_rewrites
from theatre.debate.models import EvaluationMode
from theatre.debate.runner import DebateRun, RunPlan
from theatre.debate.scripted import Disposition, ScriptedDebater, read_scenario
from theatre.debate.validation import read_debate
from theatre.engine.canonical_json import canonical_bytes, parse_object
from theatre.engine.schema_registry import resource_root

TURNS = 10_000
ROUNDS = 3
SCENARIO = "fixtures/debates/scenarios/wool_prices_after_the_drought.json"


def long_debate(mode: EvaluationMode, turns: int) -> bytes:
    """Return a valid artefact: twenty scripted turns over and over, no sentence of them twice."""
    scenario = read_scenario(parse_object((resource_root() / SCENARIO).read_bytes()))
    plan = RunPlan(
        debate_id=scenario.debate_id,
        run_id="1f6dd0a4-2f0e-4a55-9c0e-8d7a4f7f6b11",
        scenario=scenario.public(),
        participants=[("ann", "analyst"), ("bo", "critic")],
        rounds=10,
        mode=mode,
        run_metadata={"generation_mode": "mock"},
    )
    debater = ScriptedDebater(scenario, Disposition(), seed=1)
    run = DebateRun(plan, lambda: datetime(2026, 1, 1, tzinfo=UTC), lambda _entry: None)
    document = cast("dict[str, Any]", asyncio.run(run.run({"ann": debater, "bo": debater})))
    short = document["turns"]
    document["intervention_log"] = None
    document["turns"] = [_repeated(short[index % len(short)], index) for index in range(turns)]
    return canonical_bytes(document)


def _repeated(turn: dict[str, Any], index: int) -> dict[str, Any]:
    def other(text: str) -> str:
        return text.replace(".", f" in lot {index}.")

    attempts = [{**one, "content": other(one["content"])} for one in turn.get("attempts") or ()]
    return {
        **turn,
        "turn_id": f"t{index}",
        "turn_index": index,
        "round_index": index // 2 + 1,
        "content": other(turn["content"]),
        "attempts": attempts or None,
    }


def show_all(mode: EvaluationMode, turns: int, rounds: int) -> None:
    """Print every figure of one mode."""
    data = long_debate(mode, turns)
    artefact = read_debate(data, lenient=True)
    attempts = sum(len(turn.attempts or ()) for turn in artefact.debate.turns)
    sys.stdout.write(f"{mode}: {turns} turns, {attempts} attempts, {len(data) / 1e6:.1f} MB\n")

    def shown(name: str, work: Callable[[], object]) -> None:
        show(name, [seconds_of(work) for _ in range(rounds)])

    shown("  strict parser alone", lambda: parse_object(data))
    shown("  read: parser, models, every rule", lambda: read_debate(data, lenient=True))
    for name, evaluator in EVALUATORS.items():
        shown(f"  evaluator {name}", partial(evaluator, artefact.debate))
    shown(
        "  extension of itself", lambda: list(find_rewrites(artefact.document, artefact.document))
    )


def main() -> None:
    """Measure with as many turns and rounds as the caller asks for."""
    turns, rounds = sizes(TURNS, ROUNDS)
    show_all("posthoc", turns, rounds)
    show_all("in_loop", turns, rounds)


if __name__ == "__main__":
    main()
