"""`echelon adversaries`: the scores that worthless programs would get from a template."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from theatre.api.template_files import read_template, require_runnable
from theatre.api.workspace import Workspace
from theatre.cli.adversaries.rehearsal import (
    COMPOSITE,
    Adversary,
    RehearsalResult,
    Rehearsals,
    generic_adversaries,
    make_leak,
)
from theatre.cli.exits import CommandEndedError, ExitCode, NamedPath, json_option, print_document
from theatre.cli.options import header_option, template_argument
from theatre.cli.progress import ProgressLine
from theatre.cli.tables import format_number, print_table
from theatre.engine.canonical_json import JsonObject
from theatre.engine.templates import product_template

CONSTRUCT = "the construct"


class Trial(NamedTuple):
    """The results of the construct and the adversaries, and the weight of each criterion."""

    weights: Mapping[str, float]
    construct: RehearsalResult
    found: Mapping[Adversary, RehearsalResult]

    def met(self, one: RehearsalResult) -> list[str]:
        """Return the weighted criteria on which an adversary reaches the construct's interval."""
        return [
            name
            for name, score in one.scores.items()
            if self.weights.get(name, 1) > 0 and score.meets(self.construct.scores[name])
        ]

    @property
    def through(self) -> list[str]:
        """Return the adversaries that would be certified with a score like the construct's."""
        return [who.name for who, one in self.found.items() if one.is_certified and self.met(one)]

    def as_document(self) -> JsonObject:
        """Return what `--json` prints."""
        return {
            "construct": self._row(self.construct),
            "adversaries": [
                {"name": who.name, "does": who.does, **self._row(one), "meets": [*self.met(one)]}
                for who, one in self.found.items()
            ],
            "get_through": [*self.through],
        }

    def _row(self, one: RehearsalResult) -> JsonObject:
        return {
            "tier": None if one.tier is None else one.tier.value,
            "caps": list(one.caps),
            "scores": {
                name: {"value": score.value, "low": score.low, "high": score.high}
                for name, score in one.scores.items()
            },
        }


@click.command()
@template_argument
@click.option(
    "--data",
    type=NamedPath(file_okay=False),
    help="A folder with the ground truth, looked into first.",
)
@header_option
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@json_option
def adversaries(
    template: Path, *, data: Path | None, headers_env: dict[str, str], quiet: bool, as_json: bool
) -> None:
    """Say what programs that know nothing would get from the measurement of TEMPLATE.

    Each is rehearsed in the construct's place, through the real engine: empty answers, nonsense,
    copied questions, usual answers and the like (docs/adversaries.md). The construct is rehearsed
    first. Nothing is certified, and nothing is kept. Exit code 10 where one of them would be
    certified above UNVERIFIED and reaches the construct's interval on a criterion that weighs
    something.
    """
    document = read_template(template)
    require_runnable(document)
    with _rehearsals(template, document, data) as rehearsals:
        trial = _trial(replace(rehearsals, headers_env=headers_env), quiet=quiet)
    if as_json:
        print_document(trial.as_document())
    else:
        _print(trial)
    if trial.through:
        raise CommandEndedError(ExitCode.CHECK_FAILED)


@contextmanager
def _rehearsals(template: Path, document: JsonObject, data: Path | None) -> Iterator[Rehearsals]:
    workspace = Workspace.from_environment()
    roots = workspace.dataset_roots if data is None else (data, *workspace.dataset_roots)
    with tempfile.TemporaryDirectory(prefix="echelon-adversaries-") as home:
        yield Rehearsals(
            template=document,
            folder=template.parent.resolve(),
            workspace=replace(workspace, home=Path(home), dataset_roots=roots),
        )


def _trial(rehearsals: Rehearsals, *, quiet: bool) -> Trial:
    template, workspace = rehearsals.template, rehearsals.workspace
    view = product_template(template)
    with ProgressLine(CONSTRUCT, quiet=quiet) as line:
        construct = rehearsals.of_construct(line.update)
    roots = workspace.datasets_for(rehearsals.folder)
    leak = make_leak(template, view, roots, construct.recorded)
    found = {}
    for one in generic_adversaries():
        with ProgressLine(one.name, quiet=quiet) as line:
            found[one] = rehearsals.of_adversary(one, leak, line.update)
    return Trial(weights=view.criteria.weights, construct=construct, found=found)


def _print(trial: Trial) -> None:
    rows = [_rows(CONSTRUCT, trial.construct, [], trial)]
    rows += [_rows(who.name, one, trial.met(one), trial) for who, one in trial.found.items()]
    header = ("who", "tier", "criterion", "weight", "score", "95 % interval", "")
    print_table(header, [row for several in rows for row in several])
    if trial.through:
        click.echo(f"like the construct: {', '.join(trial.through)}")
    else:
        click.echo("none would be certified with a score like the construct's")


def _rows(name: str, one: RehearsalResult, met: list[str], trial: Trial) -> list[tuple[str, ...]]:
    tier = "no certificate" if one.tier is None else one.tier.value
    rows: list[tuple[str, ...]] = []
    for criterion, score in one.scores.items():
        interval = "-" if score.low is None else f"{score.low:.3f} … {score.high:.3f}"
        weight = "" if criterion == COMPOSITE else f"{trial.weights.get(criterion, 1):g}"
        mark = "like the construct" if criterion in met else ""
        shown = "composite" if criterion == COMPOSITE else criterion
        rows.append((name, tier, shown, weight, format_number(score.value), interval, mark))
        name = tier = ""
    return rows
