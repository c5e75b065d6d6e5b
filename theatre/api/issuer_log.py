"""The issuer on this machine: his keys and his log, written to and read."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from theatre.api.event_loop import complete
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.files.trust_home import TrustHome, trust_folder
from theatre.transparency.errors import LogForkError
from theatre.transparency.log import CHECKPOINT, Appended, Follower, LogWriter, prove_inclusion
from theatre.transparency.notes import Checkpoint, Note, SignedCheckpoint
from theatre.transparency.policy import Witness
from theatre.transparency.proofs import LogProof
from theatre.transparency.record import LogRecord
from theatre.transparency.tiles import TILE_WIDTH, decode_bundle, tile_path
from theatre.transparency.trust import Trust

_LOG: Final = logging.getLogger(__name__)


def issuer_home() -> TrustHome:
    """Return the folder of this user's keys and log."""
    return TrustHome(trust_folder(os.environ))


async def compare_log(home: TrustHome, trust: Trust) -> Sequence[Witness]:
    """Hold the log to what others have seen of it; return the witnesses that answered.

    Raises LogBehindError and LogForkError where nothing may be signed (docs/adr/0185).
    """
    witnesses = [one for one in trust.policy.witnesses.values() if one.url is not None]
    copies = home.copies()
    if not (witnesses or copies or trust.url):
        return ()
    from theatre.api.log_network import compare_with_others  # noqa: PLC0415 - the client takes its time

    compared = await compare_with_others(home.log, trust, copies)
    for other in compared.missing:
        _LOG.warning("%s", other)
    return compared.witnesses


async def append_entries(home: TrustHome, trust: Trust, entries: Sequence[bytes]) -> Appended:
    """Log entries, with the cosignatures of the witnesses that answer; returns once public.

    Others are asked outside of the log's lock: a slow one delays no other run. Raises
    LogForkError where the log is not the one that was signed, or is gone, LogBehindError where it
    was restored from an older copy, StateConflictError where another process does not let go of it,
    and OSError for what the disk refuses.
    """
    witnesses = await compare_log(home, trust)
    async with home.log.hold():
        writer = await _open_writer(home, trust)
        appended = await writer.append(entries)
    if not witnesses:
        return appended
    from theatre.api.log_network import gather_cosignatures  # noqa: PLC0415 - the client takes its time

    lines, missing = await gather_cosignatures(home.log, appended.checkpoint, witnesses)
    for witness in missing:
        _LOG.warning("no cosignature: %s", witness)
    async with home.log.hold():
        await writer.open()
        if lines and writer.tree.size == appended.size:
            await writer.add_cosignatures(lines)
    # They are of this checkpoint, wherever the log has got to meanwhile.
    note = Note.parse(appended.checkpoint)
    return Appended(
        appended.indices, bytes(Note(note.text, (*note.signatures, *lines))), appended.size
    )


async def prove_commitment(home: TrustHome, trust: Trust, entry: bytes) -> LogProof:
    """Log a commitment and prove it in the first checkpoint that had it.

    That one is of the tree that ends with the commitment: each is appended alone. A commitment
    that a process logged before it died gets the same proof and so the same nonce, whatever the
    log has behind it by now. Errors as `append_entries`.
    """
    appended = await append_entries(home, trust, [entry])
    index, checkpoint = appended.indices[0], appended.checkpoint
    if appended.size != index + 1:
        async with home.log.hold():
            checkpoint = await (await _open_writer(home, trust)).sign_again(index + 1)
    return await prove_inclusion(home.log, index, checkpoint)


async def find_closing(home: TrustHome, index: int) -> bytes | None:
    """Return the entry of the log that closes its commitment at `index`; None where none does."""
    size = Checkpoint.parse(Note.parse(await home.log.read(CHECKPOINT)).text).size
    # No text in a canonical entry has such a member in it: its quotation marks are escaped.
    closes = b'"commitment_index":%d,' % index
    for number in range(index // TILE_WIDTH, -(-size // TILE_WIDTH)):
        path = tile_path(None, number, min(TILE_WIDTH, size - number * TILE_WIDTH))
        for entry in decode_bundle(await home.log.read(path)):
            if closes in entry:
                return entry
    return None


async def _open_writer(home: TrustHome, trust: Trust) -> LogWriter:
    if await home.log.signed() is None:
        raise LogForkError(
            f"expected the log {trust.log.name} in {home.folder / 'log'}, got none: bring it "
            "back; `echelon log recover PLACE` takes it from a public copy"
        )
    writer = LogWriter(home.log, trust.log, home.log_signer(trust))
    await writer.open()
    return writer


async def read_record(home: TrustHome, trust: Trust) -> LogRecord:
    """Read all that the log says of runs, held to its signed checkpoint.

    Raises LogForkError and SignatureError for a log that was not signed as it stands there.
    """
    signed = SignedCheckpoint.verify(await home.log.read(CHECKPOINT), [trust.log])
    record = LogRecord()
    async for index, entry in Follower().entries(home.log, signed.checkpoint):
        record.take(index, entry)
    return record


def place_in_log(theatre_id: str, now: datetime) -> JsonObject | None:
    """Return where the user's log has a run, and what became of the others of the same version.

    None for a run that it does not have; errors as `read_record`.
    """
    home = issuer_home()
    trust = home.read()
    record = LogRecord() if trust is None else complete(read_record(home, trust))
    found = record.commitments.get(theatre_id)
    if trust is None or found is None:
        return None
    place = record.place(found.index, now=now)
    return {
        "origin": trust.log.name,
        "index": found.index,
        "closed_at": found.closed_at,
        "void_reason": found.void_reason,
        "run": place.number,
        "of": place.of,
        "others": place.others.as_document(),
        "described": str(place),
    }


def place_rows(place: JsonValue) -> list[tuple[str, str]]:
    """Return the same as rows: "run 3 of 5, the other 4: 1 certified, 3 failed"."""
    if not isinstance(place, dict):
        return []
    closed, reason = place["closed_at"], place["void_reason"]
    described = f"entry {place['index']} of {place['origin']}, " + (
        "open"
        if closed is None
        else f"{'certified' if reason is None else f'void ({reason})'} by entry {closed}"
    )
    return [("logged", described), ("record", str(place["described"]))]
