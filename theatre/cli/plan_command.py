"""`echelon plan`: how many episodes and repeats an interval of a width needs, at what cost."""

import contextlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

import click

from theatre.api.rehearsal import rehearsed
from theatre.api.template_files import read_template, require_valid, validate_template
from theatre.api.theatre_run import RunOptions
from theatre.api.workspace import Workspace
from theatre.cli.episodes_command import found_run, readable
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.options import header_option
from theatre.cli.progress import ProgressLine
from theatre.cli.tables import format_number, print_table, score_name
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import PilotError, ProgrammeError
from theatre.engine.models import EpisodeOutcome, exchanges_of
from theatre.engine.replay.usage import UsageTally, committed_prices, tally_of, usage_of
from theatre.engine.scoring import COMPOSITE, exact
from theatre.engine.scoring.planning import ASSURANCE, RUNS, Pilot, PlannedSize, WidthPlan
from theatre.engine.templates import NEWEST, ProductTheatreTemplate
from theatre.engine.tier_assigner import MIN_REPLAYS
from theatre.files.recorded_run import RecordedEpisode, RecordedRun

_MOST_REPEATS = 20
_MILLISECONDS = 1000


class _Costs(NamedTuple):
    """What an answer took in the pilot, on average: calls with their retries, time, tokens.

    Tokens, time and price are those of constructs; of a judge there are only calls.
    """

    calls: float
    judge_calls: float
    seconds: float
    tokens: tuple[float, float] | None
    dollars: float | None

    def of(self, size: PlannedSize, *, at_a_time: int) -> JsonObject:
        """Return what a run of this size would take; null for what the pilot does not show."""
        answers = size.answers
        tokens = None if self.tokens is None else [round(one * answers) for one in self.tokens]
        return {
            "repeats": size.repeats,
            "items": size.items,
            "answers": answers,
            "expected_width": size.width,
            "calls": round(self.calls * answers),
            "judge_calls": round(self.judge_calls * answers),
            "input_tokens": None if tokens is None else tokens[0],
            "output_tokens": None if tokens is None else tokens[1],
            "cost_usd": None if self.dollars is None else round(self.dollars * answers, 4),
            "seconds": round(self.seconds * answers / at_a_time, 1),
        }


@click.command()
@click.argument("template", type=click.Path(path_type=Path))
@click.option(
    "--width",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    required=True,
    help="How wide the 95 % interval may be, from its lower to its upper end.",
)
@click.option(
    "--pilot",
    metavar="RUN",
    help="An earlier run of the same criteria: a theatre, finished or not, or a bundle's folder. "
    "Without it TEMPLATE is rehearsed: each episode is asked, and nothing is certified.",
)
@click.option("--criterion", metavar="NAME", help="Plan for this score, not the composite.")
@click.option(
    "--most-repeats",
    "repeats",
    type=click.IntRange(1, _MOST_REPEATS),
    default=5,
    show_default=True,
    help="Try so many answers to an episode at most.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draws.")
@header_option
@json_option
def plan(
    template: Path,
    *,
    width: float,
    pilot: str | None,
    criterion: str | None,
    repeats: int,
    seed: int,
    headers_env: dict[str, str],
    as_json: bool,
) -> None:
    """Say how many episodes TEMPLATE needs for an interval of a width, and what that costs.

    Runs of many sizes are drawn from what a pilot run shows, and the smallest is named whose
    interval for episodes like these is narrow enough in four of five of them. A pilot with repeats
    shows what is the better buy: more episodes, or more answers to each.
    """
    written = read_template(template)
    view = require_valid(written).view
    if not isinstance(view, ProductTheatreTemplate):
        raise ProgrammeError("expected a template that is run, got one that is only committed")
    wanted = criterion or COMPOSITE
    if wanted not in {*view.criteria.criteria_ids, COMPOSITE}:
        names = ", ".join(view.criteria.criteria_ids)
        raise click.UsageError(f"expected one of {names} for --criterion, got {wanted}")
    workspace = Workspace.from_environment()
    with contextlib.ExitStack() as stack:
        if pilot is not None:
            run = found_run(pilot, workspace)
        else:
            used = tally_of(written)
            with ProgressLine(view.theatre_id, quiet=False, used=used) as line:
                options = RunOptions(headers_env=headers_env)
                _, run = stack.enter_context(
                    rehearsed(written, template.parent, workspace, options, line.update)
                )
        shown, costs = _piloted(run, view, criterion)
    most = most_repeats(written, repeats)
    sizes = WidthPlan(shown.pilot, width, seed=seed).sizes(most)
    at_a_time = view.execution_policy.max_concurrency
    best = min(sizes, key=lambda size: (size.answers, size.items))
    document: JsonObject = {
        "score": wanted,
        "width": width,
        "pilot": {"theatre_id": None if pilot is None else run.theatre_id, **shown.as_document()},
        "simulation": {"runs": RUNS, "assurance": ASSURANCE, "seed": seed},
        "sizes": [costs.of(size, at_a_time=at_a_time) for size in sizes],
        "fewest_answers": costs.of(best, at_a_time=at_a_time),
        "tier_needs_items": MIN_REPLAYS,
    }
    if as_json:
        print_document(document)
    else:
        _print(cast("Mapping[str, Any]", document))


class _Shown(NamedTuple):
    """What a pilot shows: its variances, from so many episodes with so many answers each."""

    pilot: Pilot
    items: int
    repeats: int

    def as_document(self) -> JsonObject:
        within = self.pilot.within
        return {
            "items": self.items,
            "repeats": self.repeats,
            "between_item_variance": round(self.pilot.between, 6),
            "within_item_variance": None if within is None else round(within, 6),
        }


def _piloted(
    run: RecordedRun, view: ProductTheatreTemplate, criterion: str | None
) -> tuple[_Shown, _Costs]:
    if set(run.criteria) != set(view.criteria.criteria_ids) or run.is_withheld:
        raise PilotError(
            "expected a pilot of the template's criteria, its scores open, got another"
        )
    weights = view.criteria.weights or dict.fromkeys(run.criteria, 1.0)
    shares = dict.fromkeys([criterion], 1.0) if criterion else dict(weights)
    with readable(run):
        answers, costs = read_pilot(run, shares, UsageTally(committed_prices(view)))
    return _Shown(pilot=Pilot.of(answers), items=len(answers), repeats=len(answers[0])), costs


def most_repeats(template: JsonObject, wanted: int) -> int:
    """Return how many answers to an episode the template can commit to, up to `wanted`."""
    policy = cast("JsonObject", template.get("execution_policy", {}))
    for repeats in range(wanted, 1, -1):
        more: JsonObject = {"execution_policy": {**policy, "repeats": repeats}}
        found = validate_template(template | more | {"schema_version": NEWEST}).errors
        if all(one.rule != "repeats-fit" for one in found):
            return repeats
    return 1


def read_pilot(
    run: RecordedRun, shares: Mapping[str, float], tally: UsageTally
) -> tuple[list[list[float]], _Costs]:
    """Return the answers of each scored or failed episode, and what an answer took on average."""
    found: list[list[float]] = []
    rounds = calls = latency = judged = 0
    for episode in run.episodes():
        if episode.record is not None:
            made = cast("list[dict[str, Any]]", episode.record.document["calls"])
            attempts = [one for call in made for one in call["attempts"]]
            rounds += len({call["repeat"] for call in made})
            calls += len(attempts)
            judged += sum(1 for _ in exchanges_of(episode.record.document))
            latency += sum(one["response"]["latency_ms"] for one in attempts)
            tally.note(usage_of(cast("list[JsonObject]", made)))
        if (values := _values(episode, shares)) is not None:
            found.append(values)
    if not found or not rounds:
        raise PilotError("expected a pilot with scored episodes, got none")
    counted = tally.counted > 0
    dollars = tally.cost_usd
    return found, _Costs(
        calls=calls / rounds,
        judge_calls=judged / rounds,
        seconds=latency / rounds / _MILLISECONDS,
        tokens=(tally.tokens[0] / rounds, tally.tokens[1] / rounds) if counted else None,
        dollars=None if dollars is None else dollars / rounds,
    )


def _values(episode: RecordedEpisode, shares: Mapping[str, float]) -> list[float] | None:
    """Return the score of each answer, weighed; None where the episode counts nowhere."""
    if episode.outcome is EpisodeOutcome.NOT_RUN:
        return None
    own = cast("Any", episode.repeats)
    scores: Mapping[str, Any] = (
        {name: None if one is None else [one] for name, one in episode.scores.items()}
        if own is None
        else own["scores"]
    )
    counted = [(exact(shares[name]), scores[name]) for name in shares if scores[name] is not None]
    total = sum((share for share, _ in counted), Fraction(0))
    if not total:
        return None
    return [
        float(
            sum(
                (share * exact(one) for (share, _), one in zip(counted, row, strict=True)),
                Fraction(0),
            )
            / total
        )
        for row in zip(*(values for _, values in counted), strict=True)
    ]


def _print(document: Mapping[str, Any]) -> None:
    pilot, best = document["pilot"], document["fewest_answers"]
    echo(
        f"pilot     {pilot['items']} episodes, {pilot['repeats']} of each; variance between them "
        f"{pilot['between_item_variance']:g}, within "
        + (
            "not known"
            if pilot["within_item_variance"] is None
            else f"{pilot['within_item_variance']:g}"
        )
    )
    echo(
        f"wanted    {score_name(document['score'])}: an interval {document['width']:g} wide, "
        f"low to high (narrow enough in {document['simulation']['assurance']:.0%} of "
        f"{document['simulation']['runs']} simulated runs of each size)"
    )
    print_table(
        (
            "answers each",
            "episodes",
            "answers",
            "calls",
            "tokens in",
            "tokens out",
            "US$",
            "seconds",
        ),
        [
            (
                *(str(one[name]) for name in ("repeats", "items", "answers", "calls")),
                *(
                    "-" if one[n] is None else str(one[n])
                    for n in ("input_tokens", "output_tokens")
                ),
                "-" if one["cost_usd"] is None else format_number(one["cost_usd"]),
                f"{one['seconds']:g}",
            )
            for one in document["sizes"]
        ],
    )
    echo(
        f"fewest    {best['items']} episodes, {best['repeats']} of each: {best['answers']} answers"
    )
    if best["judge_calls"]:
        echo(f"judge     {best['judge_calls']} calls more, whose tokens and price are not counted")
    if best["items"] < document["tier_needs_items"]:
        echo(f"note      a tier needs {document['tier_needs_items']} episodes, whatever the width")
    if pilot["within_item_variance"] is None:
        echo("note      the pilot asked once: with repeats it would show what they are worth")
