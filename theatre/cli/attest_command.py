"""`echelon attest`: what the check of a bundle found, as an in-toto Simple Verification Result."""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click

from theatre.api.issuer_log import issuer_home
from theatre.api.workspace import Workspace
from theatre.cli.exits import (
    CommandEndedError,
    ExitCode,
    NamedPath,
    echo,
    json_option,
    print_document,
)
from theatre.cli.tables import format_tier
from theatre.engine.bundle_check import CheckReport, Verdict
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.files.durable import replace_durably
from theatre.transparency.statements import result_statement, sign_statement, tier_property


@click.command()
@click.argument("bundle", type=NamedPath(file_okay=False))
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    help="The certificate as its issuer gave it to you: a file outside the bundle.",
)
@click.option(
    "--trust",
    "trust_file",
    type=click.Path(path_type=Path),
    help="The issuer's trust.json, as you got it from him: signature and log are checked, too.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Where to write the statement, a Sigstore bundle that your key has signed.",
)
@json_option
def attest(
    bundle: Path, *, certificate: Path | None, trust_file: Path | None, out: Path, as_json: bool
) -> None:
    """Check BUNDLE as `echelon check` does, and sign what passed, for tools that speak in-toto.

    The key is yours, also where another issued it. Nothing is signed where the check fails.
    """
    from theatre.api.bundle_proofs import read_reader  # noqa: PLC0415 - --help is quick
    from theatre.api.checks import check_folder  # noqa: PLC0415 - the same
    from theatre.cli.check_report import print_report  # noqa: PLC0415 - the same

    if trust_file is not None and trust_file.resolve().is_relative_to(bundle.resolve()):
        raise click.BadParameter(
            "expected the trust.json that you have from the issuer, got the one in the bundle, "
            "which vouches for itself alone",
            param_hint="--trust",
        )
    reader = None if trust_file is None else read_reader(trust_file, None, bundle)
    report = check_folder(bundle, certificate=certificate, reader=reader)
    checked = report.certificate
    if not report.consistent or checked is None:
        print_report(report)
        raise CommandEndedError(ExitCode.CHECK_FAILED if report.failed else ExitCode.INCOMPLETE)
    now, home = datetime.now(UTC), issuer_home()
    trust = home.open(issuer=Workspace.from_environment().issuer, at=now)
    properties = _properties(report, checked, now)
    verifier = f"urn:echelon:check:{version('echelon-theatre')}"
    payload = result_statement(checked, verifier=verifier, properties=properties, at=now)
    replace_durably(out, sign_statement(payload, home.signer(trust)))
    if as_json:
        names: list[JsonValue] = [*properties]
        print_document({"out": str(out), "kid": trust.keys[-1].key.kid, "properties": names})
        return
    for name in properties:
        echo(f"property  {name}")
    if not any(name.startswith("ECHELON_TIER_") for name in properties):
        stands = format_tier(checked, now)
        why = "less than a day is left" if report.valid else "no issuer vouches for it"
        echo(f"no tier   {stands}" + ("" if stands.startswith("UNVERIFIED") else f": {why}"))
    echo(f"signed    {out}")


def _properties(report: CheckReport, certificate: JsonObject, now: datetime) -> list[str]:
    """Return what passed. A tier is among it only where an issuer vouches for the certificate.

    Anyone can make a consistent bundle, with any tier.
    """
    tier = tier_property(certificate, at=now) if report.valid else None
    passed = {
        "ECHELON_EVIDENCE_CONSISTENT": report.consistent,
        "ECHELON_CERTIFICATE_VALID": report.valid,
        "ECHELON_COMMITMENT_LOGGED": report.verdict is Verdict.LOGGED,
        tier: tier is not None,
    }
    return [name for name, holds in passed.items() if name is not None and holds]
