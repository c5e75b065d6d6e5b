"""Who scores summaries of changes: the options of `echelon verify`, and what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from theatre.api.judge import DEFAULT_MODEL, KEY_VARIABLE, open_model
from theatre.api.workspace import Workspace
from theatre.verification.judge.scorer import MAX_REPEATS, probe
from theatre.verification.scoring_providers import LEXICAL, ScoringProvider, judged_scoring

AUTO, ANTHROPIC, LEXICAL_ONLY = "auto", "anthropic", "lexical"
_CALLS_A_PASS = 4

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def judge_options(command: CommandT) -> CommandT:
    """Add the options that `choose_scoring` takes."""
    options = (
        click.option(
            "--judge",
            type=click.Choice([AUTO, ANTHROPIC, LEXICAL_ONLY]),
            default=AUTO,
            show_default=True,
            help=f"Who scores; auto: a model if {KEY_VARIABLE} is set, else the words of the diff.",
        ),
        click.option(
            "--scoring-model",
            "--judge-model",
            default=DEFAULT_MODEL,
            show_default=True,
            help="The model that judges.",
        ),
        click.option(
            "--judge-repeats",
            type=click.IntRange(1, MAX_REPEATS),
            default=1,
            show_default=True,
            help="How often each answer is judged; scores are means.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def choose_scoring(
    judge: str, *, model: str, repeats: int, workspace: Workspace, quiet: bool
) -> ScoringProvider:
    """Return the scoring; a model is asked first whether it answers and takes temperature 0.

    A note says what was chosen, and why; without a key the words of the diff score.
    JudgeUnavailableError where a judge was asked for by name and there is no key, and where the
    model does not answer.
    """
    has_key = bool(workspace.environment.get(KEY_VARIABLE))
    if judge == LEXICAL_ONLY:
        return LEXICAL
    if judge == AUTO and not has_key:
        if not quiet:
            click.echo(
                f"note: {KEY_VARIABLE} is not set, so no model judges: answers are scored by the "
                "words of the diff (--judge lexical)",
                err=True,
            )
        return LEXICAL
    if judge == AUTO and not quiet:
        click.echo(
            f"note: {KEY_VARIABLE} is set, so {model} judges: about {_CALLS_A_PASS * repeats} "
            "calls a change (--judge lexical does without)",
            err=True,
        )

    async def ask() -> int | None:
        async with open_model(workspace) as asked:
            return await asked.probe_temperature(partial(probe, model))

    return judged_scoring(model, temperature=asyncio.run(ask()), repeats=repeats)
