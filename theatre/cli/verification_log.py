"""The log of a verification, stage by stage, as JSON lines in a file of the user's choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from theatre.api.workspace import utc_now
from theatre.cli.tables import format_number
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line
from theatre.engine.clock import format_rfc3339
from theatre.engine.models import EpisodeResult, Scored
from theatre.engine.scoring.arithmetic import nano_to_number
from theatre.verification.template import CRITERIA

_SHOWN_ID = 12

log_option = click.option(
    "--log-json",
    "log",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=lambda _, __, path: VerificationLog(path),
    help="Append what is done, stage by stage, to a file of JSON lines.",
)


class VerificationLog:
    """Appends one line an event: `at` (RFC 3339), `event`, and what belongs to it.

    Holds no header, no token and nothing of a change but its id. Without a path it writes nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def log_event(self, event: str, **members: JsonValue) -> None:
        """Append one event; raises OSError where the file cannot be written."""
        if self._path is None:
            return
        line: JsonObject = {"at": format_rfc3339(utc_now()), "event": event, **members}
        with self._path.open("ab") as handle:
            handle.write(canonical_line(line))

    def log_replays(self, results: Sequence[EpisodeResult]) -> None:
        """Append an event for each replay that was recorded."""
        for result in results:
            self.log_event(
                "replay",
                seq=result.seq,
                ground_truth_id=result.episode_id,
                outcome=result.outcome.value,
                status=result.status.value,
                scores={name: score_of(result, name) for name in CRITERIA},
            )


def score_of(result: EpisodeResult, criterion: str) -> float | None:
    """Return the score of one replay, null where it has none."""
    score = result.scores[criterion]
    return nano_to_number(score.nano) if isinstance(score, Scored) else None


def replay_line(result: EpisodeResult) -> str:
    """Return what `--verbose` shows of one replay."""
    scores = ((name, score_of(result, name)) for name in CRITERIA)
    shown = "  ".join(f"{name} {format_number(score)}" for name, score in scores)
    return f"{result.seq:5}  {result.episode_id[:_SHOWN_ID]:12}  {result.outcome.value:8}  {shown}"
