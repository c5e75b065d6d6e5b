"""fsck of a log: tiles from entries, root as signed, and what a store of theatres says of both.

It only reads, goes on after a fault, and names each one. Source: docs/contract/trust.md §4.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from theatre.engine.errors import NotFoundError
from theatre.engine.merkle import leaf_hash
from theatre.transparency.bundle_proofs import certificate_entry
from theatre.transparency.entries import EntryType
from theatre.transparency.errors import MalformedError, TransparencyError
from theatre.transparency.log import CHECKPOINT, TileStore
from theatre.transparency.notes import Checkpoint, SignedCheckpoint, VerifierKey
from theatre.transparency.record import LogRecord
from theatre.transparency.statements import IssuerKey, SignedStatement
from theatre.transparency.tiles import TILE_WIDTH, Tree, decode_bundle, edge_paths, grow, tile_path

PARTIAL = ".p/"


class Finding(NamedTuple):
    """One fault: its code, which is stable, what it is of, what was expected and found."""

    code: str
    subject: str
    expected: str
    actual: str


@dataclass(slots=True)
class LogReport:
    """What a log holds, as far as it can be read, and what is wrong with it.

    `leaves` are the hashes of the entries, in order; `checkpoint` is what was signed last; `roots`
    are those of the trees that were asked for, by size.
    """

    checkpoint: Checkpoint | None = None
    record: LogRecord = field(default_factory=LogRecord)
    leaves: list[bytes] = field(default_factory=list)
    roots: dict[int, bytes] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, code: str, subject: str, expected: str, actual: str) -> None:
        """Keep a finding; what was found may hold anything."""
        self.findings.append(Finding(code, subject, expected, actual))


async def check_log(
    store: TileStore, signed: bytes | None, key: VerifierKey, *, sizes: Collection[int] = ()
) -> LogReport:
    """Hold a log's files to its entries, these to the rules, and its root to what `key` signed.

    `signed` is the last signed checkpoint, None where there is none; the roots of the trees of
    `sizes` are computed, too.
    """
    report = LogReport()
    if signed is None:
        return report
    try:
        report.checkpoint = SignedCheckpoint.verify(signed, [key]).checkpoint
    except TransparencyError as error:
        report.add("log-signature", "the last checkpoint", f"one signed by {key.name}", str(error))
        return report
    await _check_public(store, key, report.checkpoint, report)
    tree = await check_tiles(store, report.checkpoint.size, report, sizes=sizes)
    if tree is not None:
        report.roots[tree.size] = tree.root
    if tree is not None and tree.root != report.checkpoint.root:
        report.add(
            "log-root",
            f"the tree of {tree.size} entries",
            f"the signed root {report.checkpoint.root.hex()}",
            tree.root.hex(),
        )
    report.findings += [
        Finding(fault.code, f"entry {fault.index}", "an entry of the rules", fault.text)
        for fault in report.record.faults
    ]
    _check_once(report)
    return report


async def _check_public(
    store: TileStore, key: VerifierKey, signed: Checkpoint, report: LogReport
) -> None:
    try:
        public = SignedCheckpoint.verify(await store.read(CHECKPOINT), [key]).checkpoint
    except (NotFoundError, TransparencyError) as error:
        report.add("log-checkpoint", "the public checkpoint", "the signed one", str(error))
        return
    if public != signed:
        report.add("log-checkpoint", "the public checkpoint", str(signed), str(public))


async def check_tiles(
    store: TileStore, size: int, report: LogReport, *, sizes: Collection[int] = ()
) -> Tree | None:
    """Hold every tile to the entries; return their tree, None where some cannot be read."""
    tree, last = Tree(), frozenset(edge_paths(size))
    for index in range(-(-size // TILE_WIDTH)):
        width = min(TILE_WIDTH, size - index * TILE_WIDTH)
        path = tile_path(None, index, width)
        try:
            entries = decode_bundle(await store.read(path))
        except NotFoundError:
            report.add("log-entries-missing", path, f"{width} entries", "no file")
            return None
        except MalformedError as error:
            report.add("log-entries-damaged", path, f"{width} entries", str(error))
            return None
        if len(entries) != width:
            report.add("log-entries-damaged", path, f"{width} entries", f"{len(entries)}")
            return None
        for at, entry in enumerate(entries, start=tree.size):
            report.record.take(at, entry)
        growth = grow(tree, entries)
        report.leaves += growth.leaves
        for one in range(tree.size, growth.tree.size):
            if one in sizes:
                report.roots[one] = grow(tree, entries[: one - tree.size]).tree.root
        for name, wanted in growth.files.items():
            # A partial tile may be gone once the full one is there.
            if name in last or PARTIAL not in name:
                await _check_tile(store, name, wanted, report)
        tree = growth.tree
    return tree


async def _check_tile(store: TileStore, path: str, wanted: bytes, report: LogReport) -> None:
    expected = "the hashes of the entries below it"
    try:
        if await store.read(path) != wanted:
            report.add("log-tile-damaged", path, expected, "other bytes")
    except NotFoundError:
        report.add("log-tile-missing", path, expected, "no file")


def _check_once(report: LogReport) -> None:
    seen: dict[bytes, int] = {}
    for index, leaf in enumerate(report.leaves):
        first = seen.setdefault(leaf, index)
        if first != index:
            report.add("log-entry-twice", f"entry {index}", "each entry once", f"that of {first}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTheatre:
    """What a store has of a theatre that was committed for a certificate.

    `commitment` is the entry that its rows or files give; `closing` is how it ended, None while it
    has not; `statement` is the signed certificate, a Sigstore bundle.
    """

    theatre_id: str
    commitment: bytes
    closing: EntryType | None
    statement: bytes | None = None


def check_theatre(
    report: LogReport, theatre: StoredTheatre, keys: Iterable[IssuerKey]
) -> Iterator[Finding]:
    """Yield where the log and a store disagree about a theatre; `keys` are all of the issuer."""
    subject = f"theatre {theatre.theatre_id}"
    logged = report.record.commitments.get(theatre.theatre_id)
    if logged is None:
        yield Finding("log-commitment-missing", subject, "an entry with its commitment", "none")
        return
    if report.leaves[logged.index] != leaf_hash(theatre.commitment):
        expected = f"its commitment {theatre.commitment.decode()}"
        yield Finding(
            "log-commitment-differs", subject, expected, f"another at entry {logged.index}"
        )
    kind = logged_closing(report, theatre.theatre_id)
    if kind is not theatre.closing:
        code = "log-closing-missing" if kind is None else "log-closing-differs"
        yield Finding(code, subject, f"closed by {theatre.closing}", f"closed by {kind}")
    elif kind is EntryType.CERTIFICATE and logged.closed_at is not None:
        at = report.leaves[logged.closed_at]
        yield from _check_statement(theatre, subject, logged.index, at, keys)


def logged_closing(report: LogReport, theatre_id: str) -> EntryType | None:
    """Return the type of the entry that closes a theatre's commitment; None where none does."""
    logged = report.record.commitments.get(theatre_id)
    if logged is None or logged.is_open:
        return None
    return EntryType.VOID if logged.void_reason is not None else EntryType.CERTIFICATE


def _check_statement(
    theatre: StoredTheatre, subject: str, index: int, leaf: bytes, keys: Iterable[IssuerKey]
) -> Iterator[Finding]:
    if theatre.statement is None:
        yield Finding("statement-missing", subject, "the signed certificate", "none")
        return
    try:
        signed = SignedStatement.verify(theatre.statement, keys)
        entry = certificate_entry(signed.certificate(), signed.payload, index)
    except (TransparencyError, KeyError) as error:
        yield Finding("statement-invalid", subject, "a signed certificate", str(error))
        return
    if leaf_hash(entry) != leaf:
        expected = f"an entry with its statement {signed.sha256}"
        yield Finding("statement-differs", subject, expected, "an entry with another")
