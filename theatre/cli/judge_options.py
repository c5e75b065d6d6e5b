"""Who scores summaries of changes: the options of `echelon verify`, and what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import click

from theatre.api.judge import PROVIDERS, committed_by
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import JsonObject
from theatre.judging.panel import MAX_JUDGES, SPLITS
from theatre.verification.judge.controls import committed_controls
from theatre.verification.judge.questions import MAX_REPEATS, RUBRICS
from theatre.verification.judge.scorer import probe
from theatre.verification.scoring_providers import LEXICAL, ScoringProvider, judged_scoring

if TYPE_CHECKING:
    from theatre.providers import ProviderKind

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
            "judge_models",
            multiple=True,
            metavar="[PROVIDER:]MODEL",
            help="The model that judges; several are a panel, each of its provider.  "
            f"[default: {PROVIDERS[AUTO_KIND].model} of {AUTO_KIND}]",
        ),
        click.option(
            "--judge-split",
            type=click.Choice(SPLITS),
            help="What an item comes to where the judges of a panel differ; committed.",
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


class JudgeChoice(NamedTuple):
    """What was said about who scores."""

    judge: str
    judge_models: Sequence[str]
    judge_split: str | None
    judge_repeats: int

    def named(self) -> list[tuple[ProviderKind, str]]:
        """Return provider and model of each judge; UsageError where they are no panel."""
        kind: ProviderKind = "openai" if self.judge == "openai" else AUTO_KIND
        usual = PROVIDERS[kind].model
        if not self.judge_models and usual is None:
            raise click.UsageError(f"expected --judge-model for {kind}, got none")
        named = [_named(model, kind) for model in self.judge_models or (cast("str", usual),)]
        self._require_panel(named)
        return named

    def _require_panel(self, named: Sequence[tuple[ProviderKind, str]]) -> None:
        if len(named) == 1:
            if self.judge_split is not None:
                raise click.UsageError("expected several --judge-model with --judge-split, got one")
            return
        if self.judge_split is None:
            raise click.UsageError(
                f"expected --judge-split ({', '.join(SPLITS)}) with several --judge-model, got "
                "none: it is committed what an item comes to where they differ"
            )
        if len(set(named)) != len(named):
            raise click.UsageError("expected each --judge-model once, got one twice")
        if len(named) > MAX_JUDGES or (self.judge_split == "majority" and len(named) % 2 == 0):
            odd = ", an odd number for a majority" if self.judge_split == "majority" else ""
            raise click.UsageError(f"expected at most {MAX_JUDGES} judges{odd}, got {len(named)}")
        if self.judge_repeats != 1:
            raise click.UsageError(
                "expected --judge-repeats 1 with several judges, each of whom is asked once, got "
                f"{self.judge_repeats}"
            )


def _named(text: str, usual: ProviderKind) -> tuple[ProviderKind, str]:
    """Return provider and model of `[PROVIDER:]MODEL`; names of models have colons, too."""
    for kind in PROVIDERS:
        if text.startswith(f"{kind}:"):
            return kind, text.removeprefix(f"{kind}:")
    return usual, text


def choose_scoring(
    chosen: JudgeChoice, *, changes: int, workspace: Workspace, quiet: bool
) -> ScoringProvider:
    """Return the scoring of so many changes; a model is asked first, to take temperature 0.

    A note says what was chosen, and why; without a key the words of the diff score.
    JudgeUnavailableError where a judge was asked for by name and there is no key, and where the
    model does not answer; UsageError where no model or no panel is named as one has to be.
    """
    if chosen.judge == LEXICAL_ONLY:
        return LEXICAL
    variable = PROVIDERS[AUTO_KIND].key_variable
    is_auto = chosen.judge == AUTO
    if is_auto and not workspace.environment.get(variable):
        if not quiet:
            click.echo(
                f"note: {variable} is not set, so no model judges: answers are scored by the "
                "words of the diff (--judge lexical)",
                err=True,
            )
        return LEXICAL
    named = chosen.named()
    controls = committed_controls(changes)
    if is_auto and not quiet:
        passes = chosen.judge_repeats * len(named)
        click.echo(
            f"note: {variable} is set, so {' and '.join(model for _, model in named)} judges: "
            f"about {_CALLS_A_PASS * passes} calls a change, and up to {passes} about claims of "
            f"known truth in {_one_in(controls)} (--judge lexical does without)",
            err=True,
        )

    async def commit() -> list[JsonObject]:
        return [
            await committed_by(
                RUBRICS, probe, kind, model, workspace=workspace, repeats=chosen.judge_repeats
            )
            for kind, model in named
        ]

    judges = asyncio.run(commit())
    return judged_scoring(*judges, split=chosen.judge_split, controls=controls)


def _one_in(controls: JsonObject) -> str:
    return "each" if controls["every"] == 1 else f"one of {controls['every']}"
