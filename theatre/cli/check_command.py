"""`echelon check`: the independent check, one line a check."""

from pathlib import Path
from typing import Literal

import click

from theatre.api.errors import VerdictError, require_verdict
from theatre.cli.exits import CommandEndedError, ExitCode, json_option, print_document


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), required=False)
@click.option(
    "--write-verifier",
    "verifier",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write verify_bundle.py, this check as one file of plain Python; it needs no BUNDLE.",
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    help="The certificate as its issuer gave it to you: a file outside the bundle.",
)
@click.option(
    "--verification",
    type=click.Path(path_type=Path),
    help="A verification certificate, to be made again from the bundle and compared.",
)
@click.option(
    "--labelled",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Of a qualification: the files of its labelled set, or their folder.",
)
@click.option(
    "--trust",
    "trust_file",
    type=click.Path(path_type=Path),
    help="The issuer's trust.json, as you got it from him: whose keys and which log you trust.",
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    help="Which logs and how many witnesses you ask for, in place of the policy of trust.json.",
)
@click.option("--online", is_flag=True, help="Ask the log what became of the commitment.")
@click.option(
    "--require",
    type=click.Choice(["valid", "logged"]),
    help="End with exit code 9 where the verdict is a lesser one.",
)
@json_option
def check(  # noqa: PLR0913  # one argument an option
    bundle: Path | None,
    *,
    verifier: Path | None,
    certificate: Path | None,
    verification: Path | None,
    labelled: tuple[Path, ...],
    trust_file: Path | None,
    policy: Path | None,
    online: bool,
    require: Literal["valid", "logged"] | None,
    as_json: bool,
) -> None:
    """Recompute everything in BUNDLE, an evidence bundle's folder, from the bundle alone.

    BUNDLE may be the file of a qualification, too: it is counted again, and with --labelled
    measured again.

    With --trust, hold the proofs next to it to the issuer's keys and log; what your own key signed
    needs no file.
    """
    from theatre.api import functions  # noqa: PLC0415 - --help is quick
    from theatre.cli import check_report  # noqa: PLC0415 - the same
    from theatre.engine.bundle_check.verifier import verifier_source  # noqa: PLC0415 - the same

    if verifier is not None:
        verifier.write_text(verifier_source(), encoding="utf-8")
    if bundle is None:
        if verifier is None:
            raise click.UsageError("Missing argument 'BUNDLE'.")
        return
    report = functions.check(
        bundle,
        certificate=certificate,
        verification=verification,
        labelled=labelled,
        trust=trust_file,
        policy=policy,
        online=online,
    )
    if as_json:
        print_document(report.as_document())
    else:
        check_report.print_report(report)
    if report.failed:
        raise CommandEndedError(ExitCode.CHECK_FAILED)
    if report.unavailable:
        raise CommandEndedError(ExitCode.INCOMPLETE)
    if require is not None:
        try:
            require_verdict(report, require)
        except VerdictError as error:
            raise CommandEndedError(ExitCode.LESSER_VERDICT) from error
