"""`echelon theatre validate`: everything that is wrong with a template, at once."""

from pathlib import Path

import click

from theatre.api.draft_files import find_draft
from theatre.api.functions import validate as validate_file
from theatre.api.results import Validation
from theatre.cli.certificate_report import print_preview
from theatre.cli.exits import CommandEndedError, ExitCode, json_option, print_document
from theatre.cli.reports import print_violations

_REFUSED_AT_THE_COMMITMENT = frozenset(
    {"dataset-file", "no-evidence-preview", "construct-version", "endpoint-allowed"}
)


@click.command()
@click.argument("template", required=False, type=click.Path(path_type=Path))
@click.option("--rehearsal", is_flag=True, help="As a template to rehearse, not to certify.")
@json_option
def validate(template: Path | None, *, rehearsal: bool, as_json: bool) -> None:
    """Check TEMPLATE, a draft or a template, against every rule; all violations are listed.

    Without TEMPLATE it is the draft of this folder, echelon.yaml. Data and constructs are looked
    at as they are now. Where the data are at hand: how many of the questions differ, which give an
    answer away, what answers without any work would score, and which codes would cap the tier.
    """
    found = validate_file(template or find_draft(Path()), rehearsal=rehearsal)
    if as_json:
        print_document(found.as_document())
    else:
        print_violations("error", found.errors)
        print_violations("warning", found.warnings)
        if found.evidence is not None:
            print_preview(found.evidence)
        click.echo(_verdict(found))
    if not found.valid:
        raise CommandEndedError(ExitCode.INVALID)


def _verdict(found: Validation) -> str:
    if not found.valid:
        return f"invalid: {len(found.errors)} error(s)"
    refused = sorted({one.rule for one in found.warnings} & _REFUSED_AT_THE_COMMITMENT)
    return f"valid, but cannot run here: {', '.join(refused)}" if refused else "valid"
