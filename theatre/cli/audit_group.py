"""`echelon disclose` and `echelon audit`: open episodes, ask for a sample, check what is open."""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from theatre.api.issuer_log import append_entries, issuer_home
from theatre.api.named_files import read_file
from theatre.api.workspace import Workspace
from theatre.cli.audits import CheckedDisclosure, check_disclosure, read_certificate, salted_lines
from theatre.cli.exits import (
    CommandEndedError,
    ExitCode,
    NamedPath,
    echo,
    json_option,
    print_document,
)
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.clock import format_rfc3339
from theatre.engine.coin import COIN_BYTES, Coin
from theatre.files.durable import replace_durably
from theatre.files.published_bundle import publish_bundle
from theatre.transparency.audits import AuditRequest
from theatre.transparency.disclosure import Disclosure
from theatre.transparency.disclosure import disclose as open_episodes
from theatre.transparency.entries import EntryType, encode_entry

_FILE = NamedPath(dir_okay=False)
_CERTIFICATE = click.argument("certificate", type=NamedPath())
_OUTPUT = click.option(
    "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE"
)


@click.command()
@click.argument("bundle", type=NamedPath(file_okay=False))
@click.option("--episodes", metavar="ID,…", help="Ids of episodes, or their numbers from 1.")
@click.option("--audit", "request", type=_FILE, help="The request of an audit, to answer it.")
@click.option("--coin", type=_FILE, help="The coin that the auditor has revealed.")
@click.option("--published", is_flag=True, help="Write the bundle without what is withheld.")
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where they are written.",
)
@json_option
def disclose(
    bundle: Path,
    *,
    episodes: str | None,
    request: Path | None,
    coin: Path | None,
    published: bool,
    output: Path,
    as_json: bool,
) -> None:
    """Open some episodes of BUNDLE, each with a proof, in one file.

    Who has the certificate checks it with `echelon audit check`; of the other episodes it shows
    nothing. With --audit and --coin these are the episodes that an auditor's coin names, and your
    log has the request and its answer. With --published FILE is a folder: the bundle, in which the
    episodes that its template withholds are salted hashes; `echelon check` reads it.
    """
    chosen = [episodes is not None, request is not None, published]
    if sum(chosen) != 1 or (request is None) != (coin is None):
        raise click.UsageError("expected --episodes, --published, or --audit with --coin")
    opened, found = salted_lines(bundle)
    if published:
        closed = opened.withheld()
        if not closed:
            raise click.UsageError("expected a template that withholds episodes, got another")
        publish_bundle(bundle, output, found, closed)
        if as_json:
            print_document({"published": str(output), "withheld": sorted(closed)})
        else:
            echo(f"published {output}: {len(closed)} of {len(found)} episodes are withheld")
        return
    asked = None
    if request is not None and coin is not None:
        asked = AuditRequest.parse(request.read_bytes())
        asked.require_about(opened.certificate)
        seqs = asked.named(Coin.from_line(coin.read_bytes()))
    else:
        seqs = opened.seqs((episodes or "").split(","))
    disclosure = open_episodes(opened.certificate, opened.template, found, seqs)
    data = bytes(disclosure)
    replace_durably(output, data)
    if asked is not None:
        _log([asked.entry(), asked.answer_entry(data)])
    if as_json:
        print_document({"disclosure": str(output), "sha256": sha256_hex(data), "episodes": seqs})
    else:
        echo(f"opened    {len(seqs)} of {disclosure.episodes} episodes")
        echo(f"file      {output}")


@click.group()
def audit() -> None:
    """Ask an issuer to open a sample of a certificate's episodes, and check what he opens."""


@audit.command("request")
@_CERTIFICATE
@click.option("--draw", required=True, type=click.IntRange(min=1), help="How many episodes.")
@click.option(
    "--days", default=30, show_default=True, type=click.IntRange(1, 365), help="Open within."
)
@_OUTPUT
@json_option
def request_(certificate: Path, *, draw: int, days: int, output: Path, as_json: bool) -> None:
    """Ask for --draw episodes of CERTIFICATE: a certificate, a signed one, or a bundle.

    A coin is drawn and kept next to FILE, as FILE.coin; its hash is in the request, and the request
    in your log. Send FILE to the issuer, then the coin: it names the episodes.
    """
    document, statement = read_certificate(certificate)
    coin = Coin(secrets.token_bytes(COIN_BYTES))
    open_by = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    asked = AuditRequest.of(
        document, statement_sha256=statement, draw=draw, coin=coin, open_by=open_by
    )
    kept = output.with_name(f"{output.name}.coin")
    replace_durably(kept, coin.line, mode=0o600)
    replace_durably(output, bytes(asked))
    index = _log([asked.entry()])[0]
    if as_json:
        print_document(
            {"request": str(output), "coin": str(kept), "sha256": asked.sha256, "index": index}
        )
        return
    echo(f"request   {output}: {draw} of {asked.episodes} episodes by {format_rfc3339(open_by)}")
    echo(f"coin      {kept}: reveal it once the issuer has the request")
    echo(f"log       entry {index}")


@audit.command("draw")
@click.argument("request", type=_FILE)
@click.argument("coin", type=_FILE)
@json_option
def draw_(request: Path, coin: Path, *, as_json: bool) -> None:
    """Show which episodes the COIN of an audit's REQUEST names."""
    asked = AuditRequest.parse(request.read_bytes())
    seqs = asked.named(Coin.from_line(coin.read_bytes()))
    if as_json:
        print_document({"episodes": seqs})
    else:
        echo(f"episodes  {', '.join(map(str, seqs))}")


@audit.command("check")
@_CERTIFICATE
@click.argument("disclosure", type=click.Path(path_type=Path))
@click.option("--audit", "request", type=_FILE, help="The request that it answers.")
@click.option("--coin", type=_FILE, help="The coin of the request.")
@click.option("--log", "logs", is_flag=True, help="Write what came of the audit into your log.")
@json_option
def check_audit(
    certificate: Path,
    disclosure: Path,
    *,
    request: Path | None,
    coin: Path | None,
    logs: bool,
    as_json: bool,
) -> None:
    """Compute what DISCLOSURE opens of CERTIFICATE again, and say how far that goes.

    With --audit and --coin: whether all that was asked for is open, and how many episodes can be
    false at most. Exit code 10 where something is false, or not open by its day, 8 where it is not
    open yet or something is not installed.
    """
    if (request is None) != (coin is None) or (logs and request is None):
        raise click.UsageError("expected --audit and --coin together, and --log only with them")
    document, _ = read_certificate(certificate)
    data = read_file(disclosure, what="a disclosure")
    asked, named = None, None
    if request is not None and coin is not None:
        asked = AuditRequest.parse(request.read_bytes())
        asked.require_about(document)
        named = asked.named(Coin.from_line(coin.read_bytes()))
    now = datetime.now(UTC)
    overdue = asked is not None and now > asked.open_by
    checked = check_disclosure(
        document,
        Disclosure.parse(data),
        bundle=certificate if certificate.is_dir() else None,
        named=named,
        overdue=overdue,
    )
    if logs and asked is not None:
        _log_result(asked, checked, data)
    if as_json:
        print_document(checked.as_document())
    else:
        for line in checked.lines():
            echo(line)
    if checked.exit_code is not ExitCode.OK:
        raise CommandEndedError(checked.exit_code)


def _log_result(asked: AuditRequest, checked: CheckedDisclosure, data: bytes) -> None:
    """Log that an audit was answered, or that what was opened is false."""
    if checked.false or checked.invalid is not None:
        members = {"statement_sha256": asked.statement_sha256, "envelope_sha256": sha256_hex(data)}
        _log([encode_entry(EntryType.DISPUTE, {**members})])
    elif not checked.missing:
        _log([asked.entry(), asked.answer_entry(data)])


def _log(entries: Sequence[bytes]) -> tuple[int, ...]:
    """Append to the user's own log; return where the entries stand."""
    home = issuer_home()
    trust = home.open(issuer=Workspace.from_environment().issuer, at=datetime.now(UTC))
    return tuple(asyncio.run(append_entries(home, trust, entries)).indices)
