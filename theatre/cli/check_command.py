"""`echelon check`: the independent check, one line a check."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.exits import CommandEndedError, ExitCode, json_option, print_document


def _write_verifier(context: click.Context, path: Path) -> None:
    from theatre.engine.bundle_check.verifier import (  # noqa: PLC0415 - --help is quick
        verifier_source,
    )

    path.write_text(verifier_source(), encoding="utf-8")
    context.exit()


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--write-verifier",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, path: None if path is None else _write_verifier(context, path),
    help="Write verify_bundle.py, this check as one file of plain Python, and end.",
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
    "--require",
    type=click.Choice(["valid", "logged"]),
    help="End with exit code 9 where the verdict is a lesser one.",
)
@json_option
def check(
    bundle: Path,
    *,
    certificate: Path | None,
    verification: Path | None,
    require: str | None,
    as_json: bool,
) -> None:
    """Recompute everything in BUNDLE, an evidence bundle's folder, from the bundle alone."""
    from theatre.cli import checking  # noqa: PLC0415 - --help is quick

    report = checking.check_folder(bundle, certificate=certificate)
    if verification is not None:
        report = checking.add_verification_check(report, bundle, verification)
    if as_json:
        print_document(report.as_document())
    else:
        checking.print_report(report)
    if report.failed:
        raise CommandEndedError(ExitCode.CHECK_FAILED)
    if report.unavailable:
        raise CommandEndedError(ExitCode.INCOMPLETE)
    # Nothing is logged yet: no bundle reaches that verdict.
    if require == "logged" or (require == "valid" and not report.valid):
        raise CommandEndedError(ExitCode.LESSER_VERDICT)
