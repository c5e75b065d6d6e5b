"""Who scores summaries of changes: the options of `echelon verify`, and what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from theatre.api.judge import PROVIDERS, open_model
from theatre.api.workspace import Workspace
from theatre.verification.judge.controls import committed_controls
from theatre.verification.judge.questions import MAX_REPEATS
from theatre.verification.judge.scorer import probe
from theatre.verification.scoring_providers import LEXICAL, ScoringProvider, judged_scoring

if TYPE_CHECKING:
    from theatre.engine.canonical_json import JsonObject
    from theatre.providers.client import ProviderKind

AUTO, LEXICAL_ONLY = "auto", "lexical"
AUTO_KIND: Final[ProviderKind] = "anthropic"
"""The provider that `auto` looks for: a run must not turn to another for a key that is about."""

_CALLS_A_PASS = 4

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def judge_options(command: CommandT) -> CommandT:
    """Add the options that `choose_scoring` takes."""
    options = (
        click.option(
            "--judge",
            type=click.Choice([AUTO, *PROVIDERS, LEXICAL_ONLY]),
            default=AUTO,
            show_default=True,
            help=f"Who scores; auto: a model if {PROVIDERS[AUTO_KIND].key_variable} is set, else "
            "the words of the diff.",
        ),
        click.option(
            "--scoring-model",
            "--judge-model",
            help=f"The model that judges.  [default: {PROVIDERS[AUTO_KIND].model} of {AUTO_KIND}]",
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
    judge: str,
    *,
    model: str | None,
    repeats: int,
    changes: int,
    workspace: Workspace,
    quiet: bool,
) -> ScoringProvider:
    """Return the scoring of so many changes; a model is asked first, to take temperature 0.

    A note says what was chosen, and why; without a key the words of the diff score.
    JudgeUnavailableError where a judge was asked for by name and there is no key, and where the
    model does not answer; UsageError where the provider has no usual model and none is named.
    """
    if judge == LEXICAL_ONLY:
        return LEXICAL
    kind: ProviderKind = "openai" if judge == "openai" else AUTO_KIND
    variable = PROVIDERS[kind].key_variable
    has_key = bool(workspace.environment.get(variable))
    if judge == AUTO and not has_key:
        if not quiet:
            click.echo(
                f"note: {variable} is not set, so no model judges: answers are scored by the "
                "words of the diff (--judge lexical)",
                err=True,
            )
        return LEXICAL
    named = model or PROVIDERS[kind].model
    if named is None:
        raise click.UsageError(f"expected --judge-model with --judge {kind}, got none")
    controls = committed_controls(changes)
    if judge == AUTO and not quiet:
        click.echo(
            f"note: {variable} is set, so {named} judges: about {_CALLS_A_PASS * repeats} "
            f"calls a change, and up to {repeats} about claims of known truth in "
            f"{_one_in(controls)} (--judge lexical does without)",
            err=True,
        )

    async def ask() -> int | None:
        async with open_model(workspace, kind) as asked:
            return await asked.probe_temperature(partial(probe, kind, named))

    return judged_scoring(
        named,
        temperature=asyncio.run(ask()),
        repeats=repeats,
        provider=kind,
        controls=controls,
    )


def _one_in(controls: JsonObject) -> str:
    return "each" if controls["every"] == 1 else f"one of {controls['every']}"
