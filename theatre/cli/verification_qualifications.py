"""What shows that the measures of a verification can be relied on: `--qualification`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from theatre.api.named_files import read_file
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.scoring.measure_policy import Qualification, why_unqualified
from theatre.files.durable import replace_durably
from theatre.verification.scoring_providers import ScoringProvider
from theatre.verification.template import ReliedOn, qualification_file

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

SINGLE_CLAIMS = (
    "a labelled set holds single claims, so precision is all that can qualify; "
    "--weights precision=1,recall=0,reply_accuracy=0 counts it alone"
)


def qualification_option(command: CommandT) -> CommandT:
    """Add the option whose files `rely_on` takes."""
    option = click.option(
        "--qualification",
        "qualifications",
        type=click.Path(path_type=Path, dir_okay=False),
        multiple=True,
        metavar="FILE",
        help="What `echelon qualify` signed of the measure (….sigstore.json); of several measures, "
        "several times.",
    )
    return option(command)


def rely_on(
    paths: Sequence[Path], scoring: ScoringProvider, folder: Path
) -> Mapping[str, Qualification]:
    """Keep in the folder what qualifies measures of a scoring; return it by criterion.

    Raises NotFoundError and QualificationError for a file that is no qualification, or is about no
    measure of this scoring, and UsageError for a second one of the same.
    """
    found: dict[str, Qualification] = {}
    for path in paths:
        data = read_file(path, what="a qualification")
        qualification = Qualification.read(data.splitlines(), sha256=None)
        fitting = scoring.measured_by(qualification)
        if fitting & found.keys():
            raise click.UsageError(
                f"expected with --qualification one file of each measure, got another at {path}"
            )
        for criterion in fitting:
            replace_durably(folder / qualification_file(criterion), data)
            found[criterion] = qualification
    return found


def committed(folder: Path, relied_on: Mapping[str, Qualification]) -> dict[str, ReliedOn]:
    """Return what the template says of the files that `rely_on` kept."""
    return {
        criterion: ReliedOn(
            file_sha256=sha256_hex((folder / qualification_file(criterion)).read_bytes()),
            sha256=one.sha256,
        )
        for criterion, one in sorted(relied_on.items())
    }


def note_unqualified(
    scoring: ScoringProvider, weights: Mapping[str, float], relied_on: Mapping[str, Qualification]
) -> None:
    """Say on stderr which measures with a weight keep the certificate at UNVERIFIED, and why."""
    kinds = {scorer.name: scorer.kind for scorer in scoring.scorers}
    reasons = []
    for criterion in (one for one, weight in weights.items() if weight):
        scorer, version, params = scoring.measure(criterion)
        why = why_unqualified(
            *(scorer, kinds[scorer], version, params, relied_on.get(criterion)),
            is_named=criterion in relied_on,
        )
        reasons += [] if why is None else [f"{criterion} ({why})"]
    if reasons:
        listed = ", ".join(reasons)
        click.echo(f"note: this will read UNVERIFIED for {listed}: {SINGLE_CLAIMS}", err=True)
