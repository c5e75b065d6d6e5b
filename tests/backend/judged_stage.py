"""Runs of the service that a judge scores: sums as replies, a real judge server, budgets."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.database.sessions import operator_engine
from backend.repositories.judge_ledger import set_budget
from backend.runtime import now
from backend.services.judge_access import JudgeAccess
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.sums_stage import SumsStage, sums_stage
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.debate.debates import a_debate
from tests.theatre.verification.messages_server import KEY
from theatre.debate.judge.questions import RUBRICS
from theatre.debate.judge.scorer import SCORER as DEBATE_JUDGE
from theatre.engine.canonical_json import JsonObject
from theatre.judging.panel import panel_of
from theatre.oracles.construct_registry import ConstructRegistry, construct_version, program_of
from theatre.verification.judge.scorer import SCORER, committed_judge

USED = 15
"""Tokens that the judge server says each answer took."""


def judged_episode(number: int) -> JsonObject:
    return {
        "episode_id": f"sum-{number}",
        "input_data": {
            "numbers": [number, 1],
            "question": "What is the sum?",
            "record": {"diff_content": ""},
        },
        "expected_output": {"sum": {"number": number + 1}},
    }


def judged_stage(folder: Path, count: int, *, provider: str = "anthropic") -> SumsStage:
    """Write a construct that says its sums, and a template whose one criterion a judge scores."""
    stage = sums_stage(folder, [judged_episode(number) for number in range(1, count + 1)])
    program = folder / "construct" / "main.py"
    source = program.read_text()
    program.write_text(
        source.replace('"sum": sum(asked["numbers"])', '"sum": str(sum(asked["numbers"]))')
    )
    construct = program_of(
        ConstructRegistry.load(folder / "constructs.toml").find_registered(CONSTRUCT_ID)
    )
    template: Any = stage.template
    template["version_pins"]["constructs"][CONSTRUCT_ID] = construct_version(construct)
    template["scoring"]["criteria_scorers"] = {
        "addition": {
            "scorer": SCORER.name,
            "params": {
                "measure": "reply_accuracy",
                "field": "sum",
                "expected": "sum",
                "question": "question",
                "record": "record",
                "judge": {
                    **committed_judge("a-model", temperature=0, repeats=1, provider=provider),
                    "max_tokens": 100,
                },
            },
        }
    }
    template["scorer_pins"] = {SCORER.name: SCORER.version}
    return replace(stage, template=template)


def debated_stage(folder: Path, count: int) -> SumsStage:
    """Write a construct that answers with a debate of three turns, which two judges judge."""
    stage = judged_stage(folder, count)
    program = folder / "construct" / "main.py"
    source = program.read_text().replace('str(sum(asked["numbers"]))', repr(a_debate()))
    program.write_text(source)
    template: Any = stage.template
    construct = program_of(
        ConstructRegistry.load(folder / "constructs.toml").find_registered(CONSTRUCT_ID)
    )
    template["version_pins"]["constructs"][CONSTRUCT_ID] = construct_version(construct)
    judges = [RUBRICS.committed(model, temperature=None) for model in ("a-model", "another")]
    panel = panel_of(judges, "mean")
    params: JsonObject = {"field": "sum", "figure": "validity", "panel": panel}
    entry: JsonObject = {"scorer": DEBATE_JUDGE.name, "params": params}
    template["scoring"]["criteria_scorers"] = {"addition": entry}
    template["scorer_pins"] = {DEBATE_JUDGE.name: DEBATE_JUDGE.version}
    return stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Treasury:
    """The operator's hand: sets budgets, and reads the ledger."""

    database: Database

    def allow(self, username: str, total: int, **limits: int) -> None:
        """Set a user's budget in tokens, or in another `unit`."""
        self.allow_in("tokens", username, total, **limits)

    def allow_in(self, unit: str, username: str, total: int, **limits: int) -> None:
        (user,) = self.database.rows("SELECT id FROM users WHERE username = %s", username)

        async def scene() -> None:
            engine = operator_engine(self.database.owner)
            async with engine.begin() as connection:
                await set_budget(
                    connection,
                    str(user["id"]),
                    unit=unit,
                    allowed=total,
                    per_run=limits.get("per_run", total),
                    per_day=limits.get("per_day", total),
                    at=now(),
                )
            await engine.dispose()

        asyncio.run(scene())

    def calls(self) -> list[dict[str, Any]]:
        """Return every call, the first reserved first."""
        return self.database.rows(
            "SELECT theatre_id::text, unit, day::text, reserved, spent, settled_as, epoch,"
            " answer IS NOT NULL AS answered FROM judge_calls ORDER BY reserved_at, id"
        )

    def balance(self) -> dict[str, Any]:
        """Return the one budget."""
        (row,) = self.database.rows("SELECT allowed, reserved, spent FROM judge_budgets")
        return row


def judge_settings(provider: str, origin: str) -> dict[str, Any]:
    return {f"{provider}_base_url": origin, f"{provider}_api_key": KEY}


def judge_variables(provider: str, origin: str) -> dict[str, str]:
    return {
        f"ECHELON_{name.upper()}": value for name, value in judge_settings(provider, origin).items()
    }


def most(request: Mapping[str, Any]) -> int:
    """Return the most that a request can cost in tokens."""
    return JudgeAccess.of(Settings(home=Path("unused"))).most(dict(request)).amount
