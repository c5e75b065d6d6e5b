"""The report of an independent check as lines, and the commands that go on only after one."""

from pathlib import Path

from theatre.api.bundle_proofs import REQUIREMENTS, Reader
from theatre.api.checks import check_folder, format_verdict
from theatre.cli.exits import CommandEndedError, ExitCode, echo, print_document
from theatre.engine.bundle_check import CheckReport, CheckStatus


def require_consistent(
    bundle: Path,
    *,
    as_json: bool,
    is_named: bool = False,
    certificate: Path | None = None,
    reader: Reader | None = None,
) -> CheckReport:
    """Recompute every score of a bundle; where the check fails, print the report and end.

    `is_named`: which bundle it is stands above the report, too. Errors as `check_folder`.
    """
    report = check_folder(bundle, certificate=certificate, reader=reader)
    if report.consistent:
        return report
    if as_json:
        named = {"bundle": str(bundle)} if is_named else {}
        print_document({**named, **report.as_document()})
    else:
        if is_named:
            echo(f"bundle       {bundle}")
        print_report(report)
    raise CommandEndedError(ExitCode.CHECK_FAILED if report.failed else ExitCode.INCOMPLETE)


def print_report(report: CheckReport) -> None:
    """Print one line a check, and what was expected and seen where it failed.

    Of a proof it also says what it shows: whose key, which entry, which run of how many.
    """
    for line in report.checks:
        echo(f"{line.status.value.upper():11}  {line.id}")
        if line.status is CheckStatus.PASS and line.id in REQUIREMENTS:
            echo(f"{'':11}    {line.actual}")
        if line.status is not CheckStatus.PASS:
            echo(f"{'':11}    expected {line.expected}")
            echo(f"{'':11}    got      {line.actual}")
    echo(format_verdict(report))
