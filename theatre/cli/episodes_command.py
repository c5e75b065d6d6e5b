"""`echelon theatre episodes`: one line for each recorded episode, those that are looked for."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import click

from theatre.api.workspace import Workspace
from theatre.cli.exits import echo, json_option
from theatre.cli.tables import format_usage, on_a_line, shortened, terminal_width
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import BundleError, InvalidTransitionError
from theatre.engine.models import EpisodeOutcome
from theatre.engine.replay.usage import UsageTally
from theatre.files.recorded_run import (
    BundledRun,
    RecordedEpisode,
    RecordedRun,
    count_usage,
    note_usage,
    recorded_run,
    trouble_of,
)

_ID_WIDTH, _LEAST_ID_WIDTH = 24, 8
_NUMBER_WIDTH = 5
_FIXED_WIDTH = 6 + 2 + _ID_WIDTH + 2 + 8
"""Sequence number, episode and outcome, with what stands between them."""

_ROOM_FOR_WHY = 12


class Wanted(NamedTuple):
    """Which episodes are looked for: those that fit everything that is given."""

    failed: bool
    wrong: bool
    criterion: str | None
    text: str | None

    def of(self, run: RecordedRun) -> Iterator[RecordedEpisode]:
        """Yield the episodes of a run that are wanted."""
        if self.text is None:
            yield from filter(self._fits, run.episodes())
            return
        looked_for = self.text.casefold()
        for episode, truth in run.with_truths():
            parts: list[object] = [episode.episode_id, run.record_of(episode)]
            if truth is not None:
                parts += [truth.input_data, None if run.is_withheld else truth.expected_output]
            texts = (text for part in parts for text in _texts(part))
            if self._fits(episode) and any(looked_for in text.casefold() for text in texts):
                yield episode

    def _fits(self, episode: RecordedEpisode) -> bool:
        failed = episode.outcome is not EpisodeOutcome.SCORED
        judged = (
            episode.scores
            if self.criterion is None
            else {self.criterion: episode.scores[self.criterion]}
        )
        numbers = [score for score in judged.values() if score is not None]
        wrong = not failed and any(score < 1 for score in numbers)
        if self.criterion is not None and not numbers and not failed:
            return False
        return (self.failed and failed) or (self.wrong and wrong) or not (self.failed or self.wrong)


@click.command()
@click.argument("target", metavar="ID")
@click.option("--failed", is_flag=True, help="Those without a score: failed, refused, not scored.")
@click.option("--wrong", is_flag=True, help="Those with a score below 1.")
@click.option("--criterion", metavar="NAME", help="Those that this criterion is about.")
@click.option(
    "--grep", "text", metavar="TEXT", help="Those with this text in their input, answers or errors."
)
@json_option
def episodes(
    target: str,
    *,
    failed: bool,
    wrong: bool,
    criterion: str | None,
    text: str | None,
    as_json: bool,
) -> None:
    """List the recorded episodes of ID: a theatre, while it runs or after, or a bundle's folder.

    The beginning of an id is enough. --failed and --wrong together show both; every other option
    narrows what is shown. --grep looks at words as they are written, in any case.
    """
    run = found_run(target, Workspace.from_environment())
    if run.is_withheld and (wrong or criterion is not None):
        raise InvalidTransitionError(
            "expected a theatre in which people have scored for --wrong and --criterion, got one "
            "in which they are still to: who scores must not know what machines measured"
        )
    if criterion is not None and criterion not in run.criteria:
        raise click.UsageError(f"expected one of {', '.join(run.criteria)}, got {criterion}")
    wanted = Wanted(failed=failed, wrong=wrong, criterion=criterion, text=text)
    with readable(run):
        if as_json:
            _print_json(run, wanted.of(run))
            return
        used = run.tally()
        count, first = _print_lines(run, _noted(wanted.of(run), used), criterion)
    more = "" if first is None else f"; more of one: echelon theatre episode {target} {first}"
    echo(f"{count} shown{more}")
    usage = None if used is None else used.as_document()
    if usage is not None:
        echo(f"they used {format_usage(usage)}")


def _noted(shown: Iterator[RecordedEpisode], used: UsageTally | None) -> Iterator[RecordedEpisode]:
    """Yield episodes, and count what the calls of each took."""
    for episode in shown:
        note_usage(used, episode)
        yield episode


def found_run(target: str, workspace: Workspace) -> RecordedRun:
    """Return the run of a bundle's folder or of a theatre; NotFoundError for neither."""
    folder = Path(target)
    if target and folder.is_dir():
        with readable(folder):
            return BundledRun(folder)
    view = workspace.store.view(workspace.store.begun_with(target))
    return recorded_run(view, workspace.datasets_for(view.template_folder, view.folder / "data"))


@contextlib.contextmanager
def readable(source: object) -> Iterator[None]:
    """Raise BundleError for documents that lack what every bundle has."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        where = source.folder if isinstance(source, RecordedRun) else source
        raise BundleError(
            f"expected evidence as echelon writes it in {where}, got something else "
            f"({type(error).__name__}: {error}): echelon check says where"
        ) from error


def episode_document(episode: RecordedEpisode, run: RecordedRun) -> JsonObject:
    """Return what `--json` says of one episode in a list."""
    reason, detail = trouble_of(episode)
    return {
        "seq": episode.seq,
        "episode_id": episode.episode_id,
        "outcome": episode.outcome.value,
        "reason": reason,
        "error_detail": detail,
        "scores": None if run.is_withheld else {**episode.scores},
        "composite": episode.composite,
        "holdout": episode.is_held_out,
        "usage": count_usage(run.tally(), [episode]),
    }


def _print_json(run: RecordedRun, shown: Iterator[RecordedEpisode]) -> None:
    """Print one document, an episode a line: a run is never held in memory."""
    head: JsonObject = {
        "theatre_id": run.theatre_id,
        "template_id": run.template["theatre_id"],
        "criteria": [*run.criteria],
        "withheld": run.is_withheld,
    }
    click.echo(on_a_line(head)[:-1] + ', "episodes": [', nl=False)
    separator = "\n"
    for episode in shown:
        line = on_a_line(episode_document(episode, run))
        click.echo((separator + line).encode("utf-8", "backslashreplace"), nl=False)
        separator = ",\n"
    click.echo("\n]}")


def _print_lines(
    run: RecordedRun, shown: Iterator[RecordedEpisode], criterion: str | None
) -> tuple[int, str | None]:
    """Print a line for each episode; return how many there were, and the id of the first."""
    width = terminal_width()
    columns = () if run.is_withheld else (run.criteria if criterion is None else (criterion,))
    if run.is_withheld:
        echo("scores are shown once people have scored")
    for number, name in enumerate(columns, start=1):
        echo(f"{number:>2}  {name}")
    room = _FIXED_WIDTH + (_NUMBER_WIDTH + 2) * len(columns) + 2 + _ROOM_FOR_WHY
    line_of = _all_scores if width is None or room <= width else _low_scores
    # Where even they have none, of ids.
    spare = 0 if width is None else max(0, _FIXED_WIDTH + _ROOM_FOR_WHY - width)
    names = max(_ID_WIDTH - spare, _LEAST_ID_WIDTH)
    heads = [f"{n:>{_NUMBER_WIDTH}}" for n, _ in enumerate(columns, start=1)]
    head = heads if line_of is _all_scores else ["below 1"] if columns else []
    echo("  ".join([f"{'#':>6}", f"{'episode':{names}}", f"{'outcome':8}", *head, "why"]))
    count, first = 0, cast("str | None", None)
    for episode in shown:
        name = shortened(episode.episode_id, None if width is None else names)
        echo(shortened(_line(episode, f"{name:{names}}", columns, line_of), width))
        count, first = count + 1, first or episode.episode_id
    return count, first


def _line(
    episode: RecordedEpisode,
    name: str,
    columns: Sequence[str],
    scores: Callable[[RecordedEpisode, Sequence[str]], list[str]],
) -> str:
    reason, detail = trouble_of(episode)
    cells = [f"{episode.seq:>6}", name, f"{episode.outcome.value:8}"]
    cells += scores(episode, columns)
    if reason is not None:
        cells.append(reason + (f": {' '.join(detail.split())}" if detail else ""))
    return "  ".join(cells).rstrip()


def _all_scores(episode: RecordedEpisode, columns: Sequence[str]) -> list[str]:
    return [f"{score_text(episode.scores[name]):>{_NUMBER_WIDTH}}" for name in columns]


def _low_scores(episode: RecordedEpisode, columns: Sequence[str]) -> list[str]:
    """Return, where not every criterion has room, those with a score below 1, by number."""
    if episode.outcome is not EpisodeOutcome.SCORED:
        return [" " * 7] if columns else []
    low = [
        f"{number}:{score_text(score)}"
        for number, name in enumerate(columns, start=1)
        if (score := episode.scores[name]) is not None and score < 1
    ]
    return [f"{' '.join(low):7}"] if columns else []


def score_text(score: float | None) -> str:
    """Return a score of one episode: mostly 0 or 1."""
    return "-" if score is None else f"{score:.3f}" if score % 1 else f"{score:.0f}"


def _texts(value: object) -> Iterator[str]:
    """Yield every string and number in a JSON value, and the names of members."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += [*one, *one.values()]
        elif isinstance(one, list):
            left += one
        elif one is not None:
            yield one if isinstance(one, str) else json.dumps(one)
