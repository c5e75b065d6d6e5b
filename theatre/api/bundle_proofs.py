"""The proofs next to a bundle, as further lines of its check.

The engine's check knows no keys and no log. Here the reader's trust comes in: a file that he names,
or, where a bundle is his own, the one of his own keys. What lies in the bundle is never taken for
it unasked: a liar would put his own there. Source: docs/contract/trust.md §1, §6.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from theatre.api.event_loop import complete
from theatre.api.named_files import read_file
from theatre.engine.bundle_check import Check, CheckReport, CheckStatus
from theatre.engine.bundle_check.folder import AUDIT_TRAIL, COIN, TEMPLATE, BundleFolder
from theatre.engine.bundle_check.report import DefectError, printable
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.commitment import close_by
from theatre.engine.errors import NotFoundError
from theatre.engine.replay.trail import read_run_nonce
from theatre.files.trust_home import TrustHome, trust_folder
from theatre.transparency.bundle_proofs import (
    CERTIFICATE_PROOF,
    COMMITMENT_PROOF,
    STATEMENT,
    Certified,
    LoggedCertificate,
    ProofCheck,
    ProofLine,
    Proofs,
    check_proofs,
)
from theatre.transparency.errors import MalformedError, SigningKeyError, TransparencyError
from theatre.transparency.notes import Checkpoint, Note
from theatre.transparency.policy import Policy
from theatre.transparency.proofs import LogProof
from theatre.transparency.statements import named_key
from theatre.transparency.trust import Trust

REQUIREMENTS: Final[Mapping[ProofCheck, str]] = {
    ProofCheck.SIGNATURE: "the bundle's certificate, signed",
    ProofCheck.SIGNER_TRUSTED: "a key that the reader trusts, for the time of the signature",
    ProofCheck.COMMITMENT_LOGGED: "the commitment in a trusted log, and its nonce in the draws",
    ProofCheck.CERTIFICATE_LOGGED: "the signed certificate in a trusted log",
    ProofCheck.ORDER: "a commitment that was public first, named by the signed certificate",
    ProofCheck.WITNESSES: "both checkpoints as the witnesses of the reader's policy saw them",
    ProofCheck.CLOSURE: "a commitment that was closed once, by this certificate, and not revoked",
}
_STATUS: Final = {True: CheckStatus.PASS, False: CheckStatus.FAIL, None: CheckStatus.UNANCHORED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Whom a reader trusts, in which words a signature is reported, and where the log can be read.

    `log` is a URL or the reader's own folder, None where his `trust.json` names neither.
    """

    trust: Trust
    words: str
    log: str | None


def read_reader(trust_file: Path, policy_file: Path | None, bundle: Path) -> Reader:
    """Return who trusts a `trust.json`, and in place of its policy one of his own.

    Raises NotFoundError for a missing file, MalformedError for another document.
    """
    trust = Trust.parse(read_file(trust_file, what="a trust.json"))
    if policy_file is not None:
        text = read_file(policy_file, what="a policy")
        trust = trust._replace(policy=Policy.parse(text), policy_text=text.decode("latin-1"))
    words = f"signed by a key of {trust.issuer}"
    if Path(os.path.realpath(trust_file)).is_relative_to(os.path.realpath(bundle)):
        words += ", by the trust.json that came with it: who trusts that trusts its maker"
    return Reader(trust=trust, words=words, log=trust.url if _is_served(trust) else None)


def _is_served(trust: Trust) -> bool:
    """Tell whether a log has an address; a path would have this machine's own files read."""
    try:
        parts = urlsplit(trust.url or "")
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def own_reader(proofs: Proofs, home: TrustHome) -> Reader | None:
    """Return the author as reader of what his own key signed or his own log has; else None.

    Another's bundle has nothing to do with his keys: there is nothing to refuse it by.
    """
    # Where there is nothing to settle, his folder is not even read.
    trust = None if proofs == Proofs() else home.read()
    if trust is None or not _is_own(proofs, trust):
        return None
    return Reader(trust=trust, words="signed by your own key", log=str(home.folder / "log"))


def _is_own(proofs: Proofs, trust: Trust) -> bool:
    try:
        if proofs.statement is not None:
            return named_key(proofs.statement) in {key.kid for key in trust.issuer_keys()}
        if proofs.commitment is not None:
            text = Note.parse(LogProof.parse(proofs.commitment).checkpoint).text
            return Checkpoint.parse(text).origin == trust.log.name
    except MalformedError:
        return False
    return False


def add_proof_checks(
    report: CheckReport, bundle: Path, reader: Reader | None, *, online: bool, now: datetime
) -> CheckReport:
    """Return the report with a line for each of `ProofCheck`; with a log in reach it is asked.

    `reader` None stands for the author, who needs no file for what is his own.
    """
    folder = BundleFolder.listed(bundle)
    if report.failed or report.certificate is None:
        why = "not looked at: " + (
            "the bundle does not hold" if report.failed else "a reproduction certifies nothing"
        )
        lines = tuple(ProofLine(check, ok=None, text=why) for check in ProofCheck)
        return report._replace(checks=(*report.checks, *map(_check, lines)))
    proofs = read_proofs(folder)
    if reader is None:
        # Where there is no home there are no keys of one's own.
        with contextlib.suppress(SigningKeyError):
            reader = own_reader(proofs, TrustHome(trust_folder(os.environ)))
    certified = certified_of(folder, report.certificate)
    found = check_proofs(proofs, certified, trust=None if reader is None else reader.trust)
    checks = list(map(_check, found.lines))
    if online:
        checks[-1] = _ask_log(reader, found.logged, now)
    signed = reader is not None and found.passed(ProofCheck.SIGNATURE, ProofCheck.SIGNER_TRUSTED)
    return report._replace(
        checks=(*report.checks, *checks),
        signed_by=reader.words if reader is not None and signed else None,
        logged=found.logged is not None,
    )


def read_proofs(folder: BundleFolder) -> Proofs:
    """Return what there is of `proofs/`; what cannot be read is empty, and fails its line."""

    def read(name: str) -> bytes | None:
        path = f"proofs/{name}"
        if path not in folder.proofs:
            return None
        try:
            return folder.read(path)
        except DefectError:
            return b""

    return Proofs(
        commitment=read(COMMITMENT_PROOF),
        statement=read(STATEMENT),
        certificate=read(CERTIFICATE_PROOF),
    )


def certified_of(folder: BundleFolder, certificate: JsonObject) -> Certified:
    """Return what the proofs are held to: the certificate of a bundle in which nothing failed."""
    committed_at = parse_rfc3339(cast("str", certificate["theatre_committed_at"]))
    detail = next(
        cast("JsonObject", entry["detail"])
        for entry in map(parse_object, folder.lines(AUDIT_TRAIL))
        if entry["event_type"] == "activated"
    )
    return Certified(
        certificate=certificate,
        close_by=close_by(parse_object(folder.read(TEMPLATE)), committed_at),
        run_nonce=read_run_nonce(detail),
        coin=bytes.fromhex(folder.read(COIN).decode("ascii")) if COIN in folder.files else None,
    )


def _ask_log(reader: Reader | None, logged: LoggedCertificate | None, now: datetime) -> Check:
    """Return the line of what the log says today; unavailable where it does not answer."""
    if reader is None or logged is None:
        return _check(ProofLine(ProofCheck.CLOSURE, ok=None, text="rests on the lines above"))
    if reader.log is None:
        return _unavailable("the trust.json names no http address of the log")
    try:
        return _check(complete(_closure(reader.log, reader.trust, logged, now)))
    except (TransparencyError, NotFoundError) as error:
        return _unavailable(str(error))


async def _closure(place: str, trust: Trust, logged: LoggedCertificate, now: datetime) -> ProofLine:
    # Who does not ask the log need not wait for what reads it.
    from theatre.api.log_network import open_log  # noqa: PLC0415
    from theatre.transparency.closure import check_closure  # noqa: PLC0415

    async with open_log(place) as store:
        return await check_closure(store, trust, logged, now=now)


def _unavailable(why: str) -> Check:
    line = _check(ProofLine(ProofCheck.CLOSURE, ok=None, text=why))
    return line._replace(status=CheckStatus.UNAVAILABLE)


def _check(line: ProofLine) -> Check:
    return Check(
        id=line.check.value,
        status=_STATUS[line.ok],
        expected=REQUIREMENTS[line.check],
        actual=printable(line.text),
    )
