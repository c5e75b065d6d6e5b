"""A run in its issuer's log: its commitment before the first call, and its end, once.

The order of effects. An open commitment is noted in the issuer's folder, logged, its proof and its
nonce are kept, and only then a construct is called. Of a theatre that has ended the entry that
closes it is noted, then logged, then its proofs are put next to the bundle, then the note goes.
What died in between is finished by the next command (`sweep`): what was noted is logged as it is,
and an entry that the log has already keeps its place. Source: docs/contract/trust.md §4.
"""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from theatre.api.issuer_log import append_entries, find_closing, issuer_home, prove_commitment
from theatre.api.workspace import utc_now
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object, sha256_hex
from theatre.engine.clock import parse_rfc3339
from theatre.engine.coin import Coin
from theatre.engine.errors import (
    InvalidTransitionError,
    ParseError,
    StateConflictError,
    TheatreError,
)
from theatre.engine.evidence_bundle import CERTIFICATE, COIN, bundle_name
from theatre.engine.merkle import leaf_hash
from theatre.engine.replay.trail import read_run_nonce
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import OVERDUE
from theatre.files.durable import replace_durably, sync_folder, write_synced
from theatre.files.open_commitments import OpenCommitment
from theatre.files.run_journal import TRAIL, last_state, read_trail
from theatre.files.theatre_store import FileTheatreStore, TheatreLease, TheatreView
from theatre.files.trust_home import TrustHome
from theatre.transparency.bundle_proofs import (
    CERTIFICATE_PROOF,
    COMMITMENT_PROOF,
    STATEMENT,
    TRUST,
    certificate_entry,
    commitment_entry,
    commitment_log,
    run_nonce,
)
from theatre.transparency.entries import EntryType, VoidReason, decode_entry, encode_entry
from theatre.transparency.errors import LogForkError, TransparencyError
from theatre.transparency.log import Appended, prove_inclusion
from theatre.transparency.notes import SignedCheckpoint
from theatre.transparency.policy import Policy
from theatre.transparency.proofs import LogProof
from theatre.transparency.run_entries import theatre_commitment, void_reason
from theatre.transparency.statements import SignedStatement, certificate_statement, sign_statement
from theatre.transparency.trust import Trust, TrustedKey

if TYPE_CHECKING:
    from securesystemslib.signer import Signer

PROOFS: Final = "proofs"
_LOG: Final = logging.getLogger(__name__)
_DRAFT: Final = ".proofs.partial"
_ENDED: Final = frozenset({TheatreState.RESOLVED.value, TheatreState.ARCHIVED.value})
_OF_RESOLUTION: Final = ("certificate_id", "verification_tier", "results_hash")


class NotEarnedError(TransparencyError):
    """A certificate that may not be signed: it is not what its theatre has come to."""

    code = "certificate-not-earned"


# Before the first call.


@dataclass(frozen=True, slots=True)
class Logged:
    """Where the log has a commitment, and the nonce that it gave."""

    origin: str
    index: int
    nonce: bytes

    def __str__(self) -> str:
        return f"entry {self.index} of {self.origin}"


async def log_commitment(held: TheatreLease, issuer: str) -> Logged:
    """Log the commitment of a theatre that is about to begin; keep its proof and its nonce.

    Returns once the log's checkpoint that has it is public. Raises InvalidTransitionError where
    the log has closed it, or is not the one that has it, SigningKeyError, and errors as
    `append_entries`: then the theatre stays as it is, and no call is made.
    """
    home = issuer_home()
    now = utc_now()
    trust = home.open(issuer=issuer, at=now)
    # A certificate from before its key would be not valid, for ever.
    trust.check_clock(now)
    entry = theatre_commitment(held.theatre, held.coin)
    await _open_commitment(home, held, entry)
    proof = await prove_commitment(home, trust, entry)
    nonce = run_nonce(proof.checkpoint)
    # One that is kept has the cosignatures that witnesses gave when it was first logged.
    proof = _kept_proof(held.folder, trust, entry, nonce) or proof
    replace_durably(held.folder / COMMITMENT_PROOF, bytes(proof))
    held.keep_run_nonce(nonce)
    return Logged(trust.log.name, proof.index, nonce)


async def _open_commitment(home: TrustHome, held: TheatreLease, entry: bytes) -> None:
    """Note that a commitment is open, unless it is noted already."""
    theatre_id, folder = held.theatre.theatre_id, held.folder.resolve()
    known = home.open_commitments.find(theatre_id)
    if known is None:
        has_been_logged = bool(await home.log.find([leaf_hash(entry)]))
        if has_been_logged or (held.folder / COMMITMENT_PROOF).exists():
            # A theatre begins once: with its trail cut back, or copied, it would have another try.
            raise InvalidTransitionError(
                f"expected a theatre whose commitment is open in your log, got {theatre_id}, which "
                "is closed there, or was logged elsewhere: commit its template again"
            )
    elif known.commitment != entry or known.closing is not None or _is_elsewhere(known, folder):
        raise InvalidTransitionError(
            f"expected the theatre {theatre_id} as it was logged, in {known.folder}, got another "
            f"in {folder}: commit its template again"
        )
    home.open_commitments.keep(
        OpenCommitment(theatre_id=theatre_id, folder=folder, commitment=entry)
    )


def _is_elsewhere(known: OpenCommitment, folder: Path) -> bool:
    """Return whether a commitment is of another copy of the theatre; a moved one is the same."""
    return known.folder != folder and known.folder.is_dir()


async def follow_move(held: TheatreLease) -> None:
    """Note where a theatre that has begun lies now, so that it is closed from there.

    InvalidTransitionError where the log has closed one that is unfinished here: with its folder
    and its note set back, it would come to another end.
    """
    home, folder = issuer_home(), held.folder.resolve()
    known = home.open_commitments.find(held.theatre.theatre_id)
    if known is None:
        return
    places = await home.log.find([leaf_hash(known.commitment)])
    is_closed = any([await find_closing(home, index) for index in places.values()])
    if is_closed and held.theatre.state not in _ENDED:
        raise InvalidTransitionError(
            f"expected a theatre whose commitment is open in your log, got {known.theatre_id}, "
            "which is closed there: commit its template again, with --new"
        )
    if known.folder != folder and not _is_elsewhere(known, folder):
        home.open_commitments.keep(known._replace(folder=folder))


def _kept_proof(folder: Path, trust: Trust, entry: bytes, nonce: bytes) -> LogProof | None:
    """Return the proof in a theatre's folder; None where none that gives this nonce is there."""
    with suppress(FileNotFoundError, TransparencyError):
        proof = LogProof.parse((folder / COMMITMENT_PROOF).read_bytes())
        proof.verify(entry, Policy({trust.log: trust.url}))
        return proof if run_nonce(proof.checkpoint) == nonce else None
    return None


# After the end.


async def close_commitment(view: TheatreView, *, is_checked: bool = False) -> None:
    """Close the commitment of a theatre that has ended, once; nothing where none is open.

    `is_checked`: the independent check has just let its bundle through, in this process. What goes
    wrong is a warning: the next command tries again.
    """
    home = issuer_home()
    try:
        known, trust = home.open_commitments.find(view.theatre_id), home.read()
        if known is None or trust is None or known.folder != view.folder.resolve():
            _warn_unsigned(view)
            return
        signed = None
        if known.closing is None:
            known, signed = await _decide(home, trust, known, view, is_checked=is_checked)
        await _finish(home, trust, known, signed)
    except (TheatreError, OSError) as error:
        _LOG.warning(
            "the commitment of %s is still open in your log, which the next run closes: %s",
            view.theatre_id,
            error,
        )


def _warn_unsigned(view: TheatreView) -> None:
    bundle = view.folder / bundle_name(view.theatre_id)
    if (bundle / CERTIFICATE).exists() and not (bundle / PROOFS).exists():
        _LOG.warning("not signed: no commitment of %s is open in your log", view.theatre_id)


@dataclass(frozen=True, slots=True)
class _Signed:
    """A certificate's statement, the proof of its commitment, and what was signed of it."""

    commitment: LogProof
    payload: bytes
    statement: bytes


async def _decide(
    home: TrustHome, trust: Trust, known: OpenCommitment, view: TheatreView, *, is_checked: bool
) -> tuple[OpenCommitment, _Signed | None]:
    """Return it with what closes it, durably; as it is where the log never had it.

    A certificate that was not logged by its `close_by` is none any more. Raises LogForkError where
    the log had it once.
    """
    places = await home.log.find([leaf_hash(known.commitment)])
    if not places:
        if (known.folder / COMMITMENT_PROOF).exists():
            raise LogForkError("expected the log that had the commitment, got one without it")
        return known, None
    (index,), signed = places.values(), None
    if (logged := await find_closing(home, index)) is not None:
        # Theatre and note were set back, perhaps by a backup: what the log has stands.
        return _keep_closing(home, known, logged), None
    resolution = view.resolution or {}
    is_certified = resolution.get("outcome") == "certified"
    if is_certified and utc_now() > _close_by(known):
        _LOG.warning("not signed: expected the end of %s in the log in time", known.theatre_id)
        closing = _void(known, index, VoidReason.ABANDONED)
    elif is_certified:
        try:
            certificate = _certificate(known)
            _check_result(known, certificate, resolution, is_checked=is_checked)
            signed = await _sign(home, trust, known, certificate)
            closing = certificate_entry(certificate, signed.payload, index)
        except NotEarnedError as error:
            _LOG.warning("not signed: %s", error)
            closing = _void(known, index, VoidReason.FAILED)
    else:
        closing = _void(known, index, void_reason(resolution))
    return _keep_closing(home, known, closing), signed


def _keep_closing(home: TrustHome, known: OpenCommitment, closing: bytes) -> OpenCommitment:
    decided = known._replace(closing=closing)
    # Before it is logged: whatever becomes of the theatre's folder, no other entry can close it.
    home.open_commitments.keep(decided)
    return decided


def _void(known: OpenCommitment, index: int, reason: VoidReason) -> bytes:
    members: JsonObject = {
        "theatre_id": known.theatre_id,
        "commitment_index": index,
        "reason": reason.value,
    }
    return encode_entry(EntryType.VOID, members)


def _check_result(
    known: OpenCommitment, certificate: JsonObject, resolution: JsonObject, *, is_checked: bool
) -> None:
    """Raise NotEarnedError for a bundle that was changed, or is not what its theatre ended with."""
    if any(certificate.get(name) != resolution[name] for name in _OF_RESOLUTION):
        raise NotEarnedError("expected the certificate that the theatre ended with, got another")
    if not is_checked:
        # It has lain there since a process died: it may have been changed.
        from theatre.api.checks import check_folder  # noqa: PLC0415 - for what a crash left only

        report = check_folder(known.folder / bundle_name(known.theatre_id))
        if report.failed:
            failed = ", ".join(line.id for line in report.failed)
            raise NotEarnedError(f"expected a bundle that passes its check, got {failed}")
        if report.unavailable:
            unavailable = ", ".join(line.id for line in report.unavailable)
            raise StateConflictError(f"The bundle cannot be checked here: {unavailable}")


async def _sign(
    home: TrustHome,
    trust: Trust,
    known: OpenCommitment,
    certificate: JsonObject,
    *,
    logged: str | None = None,
) -> _Signed:
    """Sign the certificate of a bundle, and keep that durably.

    `logged` is the SHA-256 of the statement where the log has it: no other may be signed. Raises
    NotEarnedError where certificate or run are not of the commitment, or not what was logged.
    """
    proof = await _commitment_proof(home, trust, known)
    payload = _statement(trust, known, certificate, proof)
    if logged not in {None, sha256_hex(payload)}:
        raise NotEarnedError("expected the certificate that was logged, got another")
    key = trust.key_at(parse_rfc3339(str(certificate["issued_at"])))
    return _Signed(
        proof, payload, _keep_signed(known.folder, payload, key, home.signer(trust, key))
    )


def _statement(
    trust: Trust, known: OpenCommitment, certificate: JsonObject, proof: LogProof
) -> bytes:
    """Return what is signed; NotEarnedError where the certificate is not of the commitment."""
    salt = None
    if decode_entry(known.commitment)[1].get("salted"):
        coin = known.folder / bundle_name(known.theatre_id) / COIN
        salt = Coin.from_line(coin.read_bytes()).secret
    if commitment_entry(certificate, close_by=_close_by(known), salt=salt) != known.commitment:
        raise NotEarnedError("expected the certificate of the logged commitment, got another's")
    signed = SignedCheckpoint.verify(proof.checkpoint, [trust.log])
    return certificate_statement(certificate, commitment_log(proof, signed))


async def _commitment_proof(home: TrustHome, trust: Trust, known: OpenCommitment) -> LogProof:
    """Return the proof that is kept; one that is lost or another's is made again, the same.

    Raises NotEarnedError where the run drew with another nonce than that of the proof.
    """
    bundle = known.folder / bundle_name(known.theatre_id)
    drawn = next(
        read_run_nonce(cast("JsonObject", entry["detail"]))
        for entry in read_trail(bundle, known.theatre_id)
        if entry["event_type"] == "activated"
    )
    kept = _kept_proof(known.folder, trust, known.commitment, drawn)
    proof = kept or await prove_commitment(home, trust, known.commitment)
    if drawn != run_nonce(proof.checkpoint):
        raise NotEarnedError("expected a run that drew with the nonce of its log, got another")
    return proof


def _certificate(known: OpenCommitment) -> JsonObject:
    path = known.folder / bundle_name(known.theatre_id) / CERTIFICATE
    try:
        return parse_object(path.read_bytes())
    except (FileNotFoundError, ParseError) as error:
        raise NotEarnedError(f"expected the certificate {path}: {error}") from error


def _keep_signed(folder: Path, payload: bytes, key: TrustedKey, signer: Signer) -> bytes:
    """Return the signed statement, which is durable; one that is there already is taken again."""
    path = folder / STATEMENT
    with suppress(FileNotFoundError, TransparencyError):
        kept = path.read_bytes()
        signed = SignedStatement.verify(kept, [key.key])
        if signed.payload == payload:
            return kept
    made = sign_statement(payload, signer)
    replace_durably(path, made)
    return made


async def _finish(
    home: TrustHome, trust: Trust, known: OpenCommitment, signed: _Signed | None = None
) -> None:
    """Log what closes a commitment, put its proofs next to the bundle, and forget it.

    `signed` is what was signed just now; what an earlier process signed is checked anew.
    """
    if known.closing is not None:
        appended = await append_entries(home, trust, [known.closing])
        kind, members = decode_entry(known.closing)
        if kind is EntryType.CERTIFICATE and known.folder.is_dir():
            try:
                logged = cast("str", members["statement_sha256"])
                signed = signed or await _sign(
                    home, trust, known, _certificate(known), logged=logged
                )
                await _write_proofs(home, trust, known, signed, appended)
            except NotEarnedError as error:
                _LOG.warning("no proofs for %s: %s", known.theatre_id, error)
    home.open_commitments.remove(known.theatre_id)


async def _write_proofs(
    home: TrustHome, trust: Trust, known: OpenCommitment, signed: _Signed, appended: Appended
) -> None:
    """Put the proofs of a certificate next to its bundle, all or none of them."""
    proof = await prove_inclusion(home.log, appended.indices[0], appended.checkpoint)
    files = {
        COMMITMENT_PROOF: bytes(signed.commitment),
        STATEMENT: signed.statement,
        CERTIFICATE_PROOF: bytes(proof),
        TRUST: canonical_line(trust.as_document()),
    }
    draft, bundle = known.folder / _DRAFT, known.folder / bundle_name(known.theatre_id)
    for left in (draft, bundle / PROOFS):
        shutil.rmtree(left, ignore_errors=True)
    draft.mkdir()
    for name, data in files.items():
        write_synced(draft / name, data)
    sync_folder(draft)
    draft.rename(bundle / PROOFS)
    sync_folder(bundle)


# What died in between.


async def sweep(*, at: datetime, running: str | None = None) -> None:
    """Close what has ended, end what may not begin any more, and abandon what is gone.

    `running` is a theatre that is there: its folder was moved where it is gone. A look at a file
    or two for each open commitment. What goes wrong with one is a warning.
    """
    home = issuer_home()
    for theatre_id in home.open_commitments.theatre_ids():
        try:
            await _sweep_one(home, theatre_id, at, is_here=theatre_id == running)
        except (TheatreError, OSError) as error:
            _LOG.warning("the commitment of %s stays open: %s", theatre_id, error)


async def _sweep_one(home: TrustHome, theatre_id: str, at: datetime, *, is_here: bool) -> None:
    known = home.open_commitments.find(theatre_id)
    if known is None:
        return
    if not (known.folder / TRAIL).is_file():
        if not is_here:
            await _abandon(home, known)
        return
    state = last_state(known.folder)
    is_overdue = state == TheatreState.COMMITTED and at > _close_by(known)
    if known.closing is None and state not in _ENDED and not is_overdue:
        return
    # The folder is theatres/<theatre_id> of a store. Where another process has its lock, that one
    # closes it.
    store = FileTheatreStore(known.folder.parents[1])
    with suppress(StateConflictError), store.hold(theatre_id) as held:
        await end_overdue(held, at)
        await close_commitment(store.view(theatre_id))


async def _abandon(home: TrustHome, known: OpenCommitment) -> None:
    """Close the commitment of a theatre whose folder is gone, as it was decided if it was."""
    trust = home.read()
    if trust is None:
        return
    if known.closing is None:
        places = await home.log.find([leaf_hash(known.commitment)])
        for index in places.values():
            logged = await find_closing(home, index)
            void = _void(known, index, VoidReason.ABANDONED)
            known = _keep_closing(home, known, logged or void)
    await _finish(home, trust, known)


def _close_by(known: OpenCommitment) -> datetime:
    return parse_rfc3339(cast("str", decode_entry(known.commitment)[1]["close_by"]))


async def end_overdue(held: TheatreLease, now: datetime) -> bool:
    """End a theatre that did not begin in time; return whether it was one."""
    if not held.theatre.is_overdue(now):
        return False
    _, events = held.theatre.end(at=now, outcome={**OVERDUE})
    await held.journal.note_together(events)
    return True
