"""The judge of debates on the command line: asked now, or replayed from a recorded evaluation."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import click

from theatre.cli.exits import read_file
from theatre.cli.judging import open_model
from theatre.cli.workspace import Workspace
from theatre.debate.errors import JudgementRecordError
from theatre.debate.judge.evaluator import NAME, configuration, evaluate, probe, replay
from theatre.debate.judge.questions import MAX_TURNS
from theatre.debate.validation import DebateArtefact
from theatre.engine.canonical_json import JsonObject, parse_object

JUDGE = "judge"


def judge_now(artefact: DebateArtefact, *, model: str, workspace: Workspace) -> JsonObject:
    """Return what `model` finds, asked now, one call a turn and one before.

    Raises JudgeUnavailableError where there is no key, or the model does not answer.
    """
    return asyncio.run(_ask(artefact, model, workspace))


def replay_judgement(artefact: DebateArtefact, record: Path) -> JsonObject:
    """Return the result of the exchanges in `record`, the output of an earlier evaluation.

    Needs no network and no key. Raises JudgementRecordError where that is not what it says.
    """
    document = parse_object(read_file(record, what="a recorded evaluation"))
    results = document.get("results")
    rows = results if isinstance(results, list) else []
    found = [row for row in rows if isinstance(row, dict) and row.get("evaluator") == NAME]
    if len(found) != 1:
        raise JudgementRecordError(
            f"expected one result of {NAME} in {record}, got {len(found)}; give the output of "
            "echelon debate evaluate --evaluator judge"
        )
    return replay(artefact, found[0])


async def _ask(artefact: DebateArtefact, model: str, workspace: Workspace) -> JsonObject:
    async with open_model(workspace) as judge:
        calls = min(MAX_TURNS, len(artefact.debate.turns))
        click.echo(f"note: {model} judges: {calls} calls, one a turn", err=True)
        temperature = await judge.probe_temperature(partial(probe, model))
        return await evaluate(artefact, configuration(model, temperature=temperature), judge)
