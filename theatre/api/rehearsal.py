"""`echelon theatre run --rehearsal`: a whole run of a template that is never certified.

It goes through the real engine in a store of its own, which is removed afterwards with its coin:
what a rehearsal has shown cannot be gone on with as a run.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from theatre.api.commitments import commit_template
from theatre.api.episodes import read_run
from theatre.api.event_loop import complete
from theatre.api.results import Run
from theatre.api.template_files import require_runnable, require_valid
from theatre.api.theatre_run import RunOptions, run_theatre
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.errors import ParseError, TheatreError
from theatre.engine.models import EpisodeOutcome
from theatre.engine.replay import Progress, Rehearsal
from theatre.engine.replay.recording import answering_attempt
from theatre.engine.scoring import COMPOSITE
from theatre.files.recorded_run import RecordedRun, recorded_run
from theatre.oracles.in_process import CannedAnswers, read_canned_answers

_SHOWN_FAILURES = 5


class RehearsalFailedError(TheatreError):
    """Data or records changed while a template was rehearsed."""

    code = "rehearsal-failed"


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

    complete(run())
    if not ends:
        raise RehearsalFailedError("expected a rehearsal to its end, got none: run it again")
    return ends[0]


def rehearse_document(
    template: JsonObject,
    folder: Path,
    workspace: Workspace,
    options: RunOptions,
    on_progress: Callable[[Progress], None],
    *,
    kept: int | None = None,
) -> Run:
    """Rehearse a template whose data paths begin in `folder`; errors as `rehearse`.

    The store is a temporary one. Its episodes are held in memory, `kept` of them unless it is None.
    """
    options = replace(options, with_findings=True)
    with rehearsed(template, folder, workspace, options, on_progress) as (rehearsal, run):
        report = _report(rehearsal, run)
        return Run.rehearsed(report, [*islice(read_run(run), kept)])


@contextlib.contextmanager
def rehearsed(
    template: JsonObject,
    folder: Path,
    workspace: Workspace,
    options: RunOptions,
    on_progress: Callable[[Progress], None],
) -> Iterator[tuple[Rehearsal, RecordedRun]]:
    """Rehearse as `rehearse_document`; what was recorded is there until the end of the block."""
    require_runnable(template, certificate_run=False)
    with tempfile.TemporaryDirectory(prefix="echelon-rehearsal-") as home:
        own = replace(workspace, home=Path(home))
        rehearsal = rehearse(template, folder.resolve(), own, options, on_progress)
        (theatre_id,) = own.store.theatre_ids()
        yield rehearsal, recorded_run(own.store.view(theatre_id), own.datasets_for(folder))


def _report(rehearsal: Rehearsal, run: RecordedRun) -> JsonObject:
    aggregate: Any = rehearsal.aggregate
    failed, shown = 0, []
    for one in run.episodes():
        if one.outcome is EpisodeOutcome.MISSING and one.record is not None:
            failed += 1
            if failed <= _SHOWN_FAILURES:
                response: Any = answering_attempt(one.record.document)["response"]
                shown.append(
                    {
                        "episode_id": one.episode_id,
                        "status": response["status"],
                        "error_detail": response["error_detail"],
                    }
                )
    return {
        "rehearsal": True,
        "would_be_tier": rehearsal.assessment.tier.value,
        "caps": list(rehearsal.assessment.caps),
        "findings": list(rehearsal.findings),
        "episode_counts": aggregate["episode_counts"],
        "scores": {**aggregate["scores"], COMPOSITE: aggregate[COMPOSITE]},
        "score_intervals": aggregate["score_intervals"],
        "score_counts": aggregate["score_counts"],
        "failures": failed,
        "first_failures": [*shown],
    }


def with_answers(
    template: JsonObject, answers: Path, options: RunOptions
) -> tuple[JsonObject, RunOptions]:
    """Return both so that a file of answers stands in for each construct; as `read_answers`."""
    canned = replace(options, answers=read_answers(answers))
    return with_adapter(template, "mock"), canned


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
