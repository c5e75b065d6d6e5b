"""`echelon theatre run --rehearsal`: a whole run of a template that is never certified.

It goes through the real engine in a store of its own, which is removed afterwards with its coin:
what a rehearsal has shown cannot be gone on with as a run.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
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
from theatre.engine.replay.recording import answering_attempt
from theatre.engine.scoring import COMPOSITE
from theatre.oracles.in_process import CannedAnswers, read_canned_answers

_SHOWN_FAILURES = 5


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
        template = with_adapter(template, "mock")
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
        "scores": {**aggregate["scores"], COMPOSITE: aggregate[COMPOSITE]},
        "score_intervals": aggregate["score_intervals"],
        "failures": failures.count,
        "first_failures": [*failures.shown],
    }


def print_rehearsal(report: JsonObject) -> None:
    """Print what `rehearse_file` returned."""
    document: Any = report
    rows = [
        (
            "composite" if name == COMPOSITE else name,
            format_number(value),
            format_interval(document["score_intervals"][name]),
        )
        for name, value in document["scores"].items()
    ]
    print_table(("criterion", "score", "95 % interval"), rows)
    counts = {name: count for name, count in document["episode_counts"].items() if count}
    echo("episodes   " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    for one in document["first_failures"]:
        echo(f"failed     {one['episode_id']}: {one['status']}: {one['error_detail']}")
    if document["failures"] > len(document["first_failures"]):
        echo(f"           and {document['failures'] - len(document['first_failures'])} more")
    echo(f"would be   {document['would_be_tier']}")
    for number, cap in enumerate(document["caps"]):
        echo(f"{'' if number else 'missing':11}{cap}")
    echo("a rehearsal: nothing is certified, and nothing is kept")


def read_answers(path: Path) -> CannedAnswers:
    """Read a file of answers; ParseError, with file and line, as `read_canned_answers`."""
    try:
        with path.open("rb") as lines:
            return read_canned_answers(lines)
    except ParseError as error:
        raise ParseError(f"{path}, {error}", reason=error.reason) from error


def with_adapter(
    template: Mapping[str, Any], adapter_type: str, versions: Mapping[str, str] | None = None
) -> JsonObject:
    """Return the template with one adapter for every construct, and with `versions` as its pins.

    How constructs are reached changes; all that is asked and scored stays.
    """
    changed: Any = parse_object(canonical_bytes(template))
    pins, config = changed.get("version_pins", {}), changed.get("product_theatre_config", {})
    if "adapter_version" in pins:
        pins["adapter_version"] = f"{adapter_type}@1"
    if versions is not None:
        pins["constructs"] = {**versions}
    config["adapter_type"] = adapter_type
    for elsewhere in ("adapter_endpoint", "construct_endpoints"):
        config.pop(elsewhere, None)
    return parse_object(canonical_bytes(changed))
