"""`echelon monitor`: follow a log, hold it to what was seen of it, and list what it owes."""

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click

from theatre.api.log_network import HttpLog, open_log
from theatre.cli.exits import (
    CommandEndedError,
    ExitCode,
    NamedPath,
    echo,
    json_option,
    print_document,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.files.durable import append_durably, replace_durably, truncate_durably
from theatre.files.trust_home import trust_folder
from theatre.oracles.http_client import HttpClient
from theatre.transparency.errors import LogForkError, MalformedError, ProofError
from theatre.transparency.log import CHECKPOINT, Follower, TileStore, prove_consistency
from theatre.transparency.merkle import verify_consistency
from theatre.transparency.notes import Checkpoint, SignedCheckpoint, VerifierKey
from theatre.transparency.policy import Policy
from theatre.transparency.record import LogRecord
from theatre.transparency.tiles import Tree, decode_bundle, encode_bundle
from theatre.transparency.trust import Trust


@dataclass(slots=True)
class Seen:
    """What a monitor has seen of one log: its entries, the tree over them, the last checkpoint.

    The entries are kept whole: what a log takes back later is still here.
    """

    folder: Path
    tree: Tree = field(default_factory=Tree)
    checkpoint: bytes | None = None
    record: LogRecord = field(default_factory=LogRecord)
    entries_bytes: int = 0

    @classmethod
    def read(cls, folder: Path) -> "Seen":
        """Read the state; what was appended to the entries after it was saved is cut."""
        path = folder / "state.json"
        if not path.exists():
            return cls(folder)
        document = json.loads(path.read_bytes())
        seen = cls(
            folder,
            Tree(
                size=document["size"],
                edge=tuple(
                    tuple(bytes.fromhex(one) for one in level) for level in document["edge"]
                ),
                entries=tuple(bytes.fromhex(one) for one in document["entries"]),
            ),
            document["checkpoint"].encode(),
            entries_bytes=document["entries_bytes"],
        )
        truncate_durably(folder / "entries", seen.entries_bytes)
        for index, entry in enumerate(_entries((folder / "entries").read_bytes())):
            seen.record.take(index, entry)
        return seen

    def save(self, tree: Tree, checkpoint: bytes, entries: Sequence[tuple[int, bytes]]) -> None:
        """Keep new entries, then the state that has them."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = encode_bundle(entry for _, entry in entries)
        append_durably(self.folder / "entries", data)
        self.entries_bytes += len(data)
        self.tree, self.checkpoint = tree, checkpoint
        for index, entry in entries:
            self.record.take(index, entry)
        document: JsonObject = {
            "checkpoint": checkpoint.decode(),
            "size": tree.size,
            "edge": [[one.hex() for one in level] for level in tree.edge],
            "entries": [one.hex() for one in tree.entries],
            "entries_bytes": self.entries_bytes,
        }
        replace_durably(self.folder / "state.json", canonical_line(document))

    def keep_evidence(self, shown: bytes, *, at: datetime) -> Path:
        """Keep two signed checkpoints that do not go together; return their folder."""
        folder = self.folder / f"fork-{at.strftime('%Y%m%dT%H%M%S')}"
        folder.mkdir(parents=True, exist_ok=True)
        replace_durably(folder / "shown", shown)
        if self.checkpoint is not None:
            replace_durably(folder / "seen", self.checkpoint)
        return folder


def _entries(data: bytes) -> list[bytes]:
    """Return all entries of a file of bundles: it may hold more than one bundle can."""
    entries, offset = list[bytes](), 0
    while offset < len(data):
        end = offset + 2 + int.from_bytes(data[offset : offset + 2], "big")
        entries += decode_bundle(data[offset:end])
        offset = end
    return entries


@click.command()
@click.argument("place")
@click.option("--log", "vkey", help="The key of the log, as `echelon trust show` prints it.")
@click.option(
    "--trust",
    "trust_file",
    type=NamedPath(dir_okay=False),
    help="The trust.json of the issuer, which names the log's key.",
)
@click.option("--construct", help="Show the record of this construct, too.")
@click.option("--witness", "witness_url", help="Compare with what this witness has seen.")
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where it keeps what it has seen; the user's state folder by default.",
)
@json_option
def monitor(
    place: str,
    *,
    vkey: str | None,
    trust_file: Path | None,
    construct: str | None,
    witness_url: str | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """Follow the log at PLACE, a URL or a folder, from where the last look ended.

    Each entry is read and held to the signed root; overdue commitments, audits that nothing
    answered by their day, and wrong entries are listed. Exit code 10 where the log shows another
    tree than before, with both signed checkpoints kept, or where an entry is wrong.
    """
    policy = _policy(vkey, trust_file)
    now = datetime.now(UTC)
    folder = home or trust_folder(os.environ) / "monitor"
    report = asyncio.run(look_at_log(place, policy, folder, witness_url=witness_url, now=now))
    document = report.as_document(construct, now)
    if as_json:
        print_document(document)
    else:
        _print(document)
    if report.fork is not None or report.seen.record.faults:
        raise CommandEndedError(ExitCode.CHECK_FAILED)


def _policy(vkey: str | None, trust_file: Path | None) -> Policy:
    """Return whom to trust; a log's key has to come from somewhere else than from the log."""
    if trust_file is not None:
        return Trust.parse(trust_file.read_bytes()).policy
    if vkey is None:
        raise click.UsageError("expected --log KEY or --trust FILE: a log cannot vouch for itself")
    return Policy({VerifierKey.parse(vkey): None})


@dataclass(slots=True)
class Report:
    """What a look at a log found."""

    seen: Seen
    shown: Checkpoint
    new: int = 0
    fork: str | None = None
    evidence: Path | None = None

    def as_document(self, construct: str | None, now: datetime) -> JsonObject:
        """Return what `--json` prints; with the record of a construct where one is named."""
        record = self.seen.record
        overdue: list[JsonValue] = [
            {
                "index": one.index,
                "theatre_id": one.theatre_id,
                "construct_id": one.construct_id,
                "close_by": format_rfc3339(one.close_by),
            }
            for one in record.overdue(now)
        ]
        audits: list[JsonValue] = [
            {
                "index": one.index,
                "statement_sha256": one.statement_sha256,
                "open_by": format_rfc3339(one.open_by),
            }
            for one in record.overdue_audits(now)
        ]
        faults: list[JsonValue] = [
            {"index": fault.index, "code": fault.code, "text": fault.text}
            for fault in record.faults
        ]
        document: JsonObject = {
            "origin": self.shown.origin,
            "size": self.shown.size,
            "new_entries": self.new,
            "fork": self.fork,
            "evidence": None if self.evidence is None else str(self.evidence),
            "faults": faults,
            "overdue": overdue,
            "overdue_audits": audits,
        }
        if construct is not None:
            document["record"] = record.counts(construct, now=now).as_document()
        return document


async def look_at_log(
    place: str, policy: Policy, home: Path, *, now: datetime, witness_url: str | None = None
) -> Report:
    """Read a log from where the last look ended; `home` keeps what was seen.

    Raises what the log's store and its checkpoint's signature raise; a fork is in the report.
    """
    async with open_log(place) as store:
        data = await store.read(CHECKPOINT)
        signed = policy.verify_checkpoint(data)
        origin = hashlib.sha256(signed.checkpoint.origin.encode()).hexdigest()
        seen = await asyncio.to_thread(Seen.read, home / origin)
        report = Report(seen, signed.checkpoint)
        try:
            follower = Follower(seen.tree)
            new = await _all(follower.entries(store, signed.checkpoint))
            if witness_url is not None:
                await _compare(store, signed, policy, f"{witness_url.rstrip('/')}/{origin}")
        except LogForkError as error:
            report.fork = str(error)
            report.evidence = seen.keep_evidence(data, at=now)
            return report
        report.new = len(new)
        await asyncio.to_thread(seen.save, follower.tree, data, new)
    return report


async def _all(entries: AsyncIterator[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the entries once all of them are verified: none is looked at before."""
    return [entry async for entry in entries]


async def _compare(store: TileStore, shown: SignedCheckpoint, policy: Policy, url: str) -> None:
    """Raise LogForkError unless the witness saw a tree that the one shown here goes on from."""
    async with contextlib.aclosing(HttpClient(seconds=10)) as client:
        data = await HttpLog(url, client).read(CHECKPOINT)
    other = SignedCheckpoint.verify(data, policy.logs).checkpoint
    old, new = sorted((other, shown.checkpoint), key=lambda one: one.size)
    try:
        hashes = await prove_consistency(store, old.size, new.size)
        verify_consistency(
            old=old.size, old_root=old.root, new=new.size, new_root=new.root, proof=hashes
        )
    except (ProofError, MalformedError, NotFoundError) as error:
        raise LogForkError(
            f"the witness has seen {other.size} entries that do not go with the "
            f"{shown.checkpoint.size} shown here: {error}"
        ) from error


def _print(document: JsonObject) -> None:
    echo(f"log       {document['origin']}: {document['size']} entries")
    if document["fork"] is not None:
        echo(f"FORK      {document['fork']}")
        echo(f"evidence  {document['evidence']}")
        return
    echo(f"new       {document['new_entries']} entries, held to the signed root")
    for kind in ("faults", "overdue", "overdue_audits"):
        rows = document[kind]
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict):
                words = ", ".join(f"{name} {value}" for name, value in row.items())
                echo(f"{kind.replace('_', ' '):9} {words}")
    if isinstance(record := document.get("record"), dict):
        echo("record    " + ", ".join(f"{name} {value}" for name, value in record.items()))
