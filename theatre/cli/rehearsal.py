"""`echelon theatre run --rehearsal`: a whole run of a template that is never certified.

It goes through the real engine in a store of its own, which is removed afterwards with its coin:
what a rehearsal has shown cannot be gone on with as a run.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from theatre.cli.committing import commit_template
from theatre.cli.exits import echo
from theatre.cli.progress import ProgressLine
from theatre.cli.tables import format_interval, format_number, print_table
from theatre.cli.template_files import read_template, require_runnable, require_valid
from theatre.cli.theatre_run import RunOptions, run_theatre
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.errors import ParseError, TheatreError
from theatre.engine.models import EpisodeOutcome, EpisodeResult
from theatre.engine.replay import Progress, Rehearsal
from theatre.engine.replay.records import answering_attempt
from theatre.oracles.in_process import CannedAnswers

_SHOWN_FAILURES = 5
_ENVELOPE = {"output_data", "status", "error_detail", "confidence"}
_PLACE = {"episode_id", "construct_id"}


class RehearsalFailedError(TheatreError):
    """Data or records changed while a template was rehearsed."""

    code = "rehearsal-failed"


@dataclass(slots=True)
class FirstFailures:
    """The first failures of a run, and how many there were: no more of it is kept."""

    count: int = 0
    shown: list[JsonObject] = field(default_factory=list)

    def add(self, results: Sequence[EpisodeResult]) -> None:
        """Take what a batch recorded."""
        for result in results:
            if result.outcome is not EpisodeOutcome.MISSING:
                continue
            self.count += 1
            if len(self.shown) < _SHOWN_FAILURES:
                response: Any = answering_attempt(result.record.document)["response"]
                self.shown.append(
                    {
                        "episode_id": result.episode_id,
                        "status": result.status.value,
                        "error_detail": response["error_detail"],
                    }
                )


def rehearse(
    template: JsonObject,
    folder: Path,
    workspace: Workspace,
    options: RunOptions,
    on_progress: Callable[[Progress], None],
) -> Rehearsal:
    """Commit `template` in the store of `workspace`, run it, and return what it came to.

    Errors as `commit_template` and a run; RehearsalFailedError where it did not get to its end.
    """
    ends: list[Rehearsal] = []

    async def run() -> None:
        theatre = await commit_template(
            require_valid(template, certificate_run=False),
            template_folder=folder,
            workspace=workspace,
        )
        await run_theatre(
            theatre.theatre_id,
            workspace,
            replace(options, on_rehearsed=ends.append),
            on_start=lambda _: None,
            on_progress=on_progress,
        )

    asyncio.run(run())
    if not ends:
        raise RehearsalFailedError("expected a rehearsal to its end, got none: run it again")
    return ends[0]


def rehearse_file(
    path: Path, answers: Path | None, workspace: Workspace, options: RunOptions, *, quiet: bool
) -> JsonObject:
    """Rehearse a template file; with `answers` these stand in for each of its constructs.

    Returns what `--json` prints. Errors as `rehearse` and `read_answers`.
    """
    template = read_template(path)
    if answers is not None:
        options = replace(options, answers=read_answers(answers))
        template = with_canned_answers(template)
    require_runnable(template, certificate_run=False)
    failures = FirstFailures()
    with (
        tempfile.TemporaryDirectory(prefix="echelon-rehearsal-") as home,
        ProgressLine(cast("str", template["theatre_id"]), quiet=quiet) as line,
    ):
        rehearsal = rehearse(
            template,
            path.parent.resolve(),
            replace(workspace, home=Path(home)),
            replace(options, on_recorded=failures.add),
            line.update,
        )
    aggregate: Any = rehearsal.aggregate
    return {
        "rehearsal": True,
        "would_be_tier": rehearsal.assessment.tier.value,
        "caps": list(rehearsal.assessment.caps),
        "episode_counts": aggregate["episode_counts"],
        "scores": {**aggregate["scores"], "composite_score": aggregate["composite_score"]},
        "score_intervals": aggregate["score_intervals"],
        "failures": failures.count,
        "first_failures": [*failures.shown],
    }


def print_rehearsal(report: JsonObject) -> None:
    """Print what `rehearse_file` returned."""
    document: Any = report
    rows = [
        (name, format_number(value), format_interval(document["score_intervals"][name]))
        for name, value in document["scores"].items()
    ]
    print_table(("criterion", "score", "interval"), rows)
    counts = {name: count for name, count in document["episode_counts"].items() if count}
    echo("episodes   " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    for one in document["first_failures"]:
        echo(f"failed     {one['episode_id']}: {one['status']}: {one['error_detail']}")
    if document["failures"] > len(document["first_failures"]):
        echo(f"           and {document['failures'] - len(document['first_failures'])} more")
    echo(f"would be   {document['would_be_tier']}")
    for cap in document["caps"]:
        echo(f"           {cap}")
    echo("a rehearsal: nothing is certified, and nothing is kept")


def read_answers(path: Path) -> CannedAnswers:
    """Read JSONL: a line has an `episode_id` of the dataset and members of an answer envelope.

    With a `construct_id` it is the answer of that construct alone. Raises ParseError, with the
    line, for anything else and for a second answer to one question.
    """
    answers: dict[tuple[str | None, str], JsonObject] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path}, line {number}"
            try:
                document = parse_object(line)
            except ParseError as error:
                raise ParseError(f"{where}: {error}") from error
            episode_id, construct_id = document.get("episode_id"), document.get("construct_id")
            unknown = sorted(document.keys() - _ENVELOPE - _PLACE)
            if not isinstance(episode_id, str) or unknown:
                got = f"a line with {', '.join(unknown)}" if unknown else "a line without"
                members = ", ".join(sorted(_ENVELOPE))
                raise ParseError(
                    f"{where}: expected an episode_id and no more than {members}, got {got}"
                )
            if construct_id is not None and not isinstance(construct_id, str):
                raise ParseError(f"{where}: expected construct_id to be a string")
            if (construct_id, episode_id) in answers:
                raise ParseError(f"{where}: expected one answer to {episode_id}, got a second")
            answers[construct_id, episode_id] = {
                name: value for name, value in document.items() if name in _ENVELOPE
            }
    return answers


def with_canned_answers(template: JsonObject) -> JsonObject:
    """Return the template with `mock` in the place of every construct's adapter.

    How constructs are reached changes; all that is asked and scored stays.
    """
    changed: Any = parse_object(canonical_bytes(template))
    pins, config = changed.get("version_pins", {}), changed.get("product_theatre_config", {})
    if "adapter_version" in pins:
        pins["adapter_version"] = "mock@1"
    config["adapter_type"] = "mock"
    for elsewhere in ("adapter_endpoint", "construct_endpoints"):
        config.pop(elsewhere, None)
    return parse_object(canonical_bytes(changed))
