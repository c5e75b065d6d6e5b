"""Prints what a transparency log costs: append, proofs, export, a monitor from nothing.

`python -m tests.benchmarks.log_figures [ENTRIES] [BATCH]` writes a log into a folder below the
system's temporary one, whose disk decides what a durable append takes. Where `pymerkle` is
installed it does the same tree next to it, in memory; it is under the GPL, and no dependency.
"""

import asyncio
import importlib
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.benchmarks.figures import say, sizes
from tests.theatre.transparency.test_record import committed, void
from theatre.cli import cli
from theatre.files.trust_home import TRUST_HOME, TrustHome
from theatre.transparency.log import LogWriter, prove_consistency, prove_inclusion
from theatre.transparency.notes import Checkpoint, Note, sign_text
from theatre.transparency.proofs import LogProof
from theatre.transparency.tiles import Tree, grow

ENTRIES, BATCH = 100_000, 1_000
PROOFS = 200


@contextmanager
def timed(name: str, count: int) -> Iterator[None]:
    """Print a line: how many a second by the clock, and processor time of one."""
    began, own = time.perf_counter(), time.process_time()
    yield
    wall, processor = time.perf_counter() - began, time.process_time() - own
    say(name, f"max {count / wall:9.0f} /s   processor {processor / count * 1000:9.4f} ms")


def logged(count: int) -> list[bytes]:
    """Return entries as runs make them: a commitment, and what closes it."""
    pairs = ((committed(f"theatre-{at}"), void(f"theatre-{at}", at)) for at in range(0, count, 2))
    return [entry for pair in pairs for entry in pair]


def some_of(count: int) -> list[int]:
    """Return indices all over a log."""
    return [at * count // PROOFS for at in range(PROOFS)]


async def show_folder(home: TrustHome, entries: Sequence[bytes], batch: int) -> None:
    """Append to a folder and ask it for proofs, which are verified as a reader does."""
    trust = home.open(issuer="bench", at=datetime.now(UTC))
    store, size = home.log, len(entries)
    writer = LogWriter(store, trust.log, home.log_signer(trust))
    await writer.open()
    with timed("append, folder, durable", size):
        for start in range(0, size, batch):
            await writer.append(entries[start : start + batch])
    with timed("proof of inclusion, folder", PROOFS):
        proofs = [
            bytes(await prove_inclusion(store, index, writer.checkpoint)) for index in some_of(size)
        ]
    with timed("its check, signature too", PROOFS):
        for index, proof in zip(some_of(size), proofs, strict=True):
            LogProof.parse(proof).verify(entries[index], trust.policy)
    with timed("proof of consistency, folder", PROOFS):
        for index in some_of(size):
            await prove_consistency(store, index, size)


def show_tree(home: TrustHome, entries: Sequence[bytes], batch: int) -> None:
    """Grow the same tree with its tiles and signed checkpoints, and leave the disk alone."""
    trust = home.open(issuer="bench", at=datetime.now(UTC))
    tree, sign = Tree(), home.log_signer(trust)
    with timed("append, tiles and checkpoint in memory", len(entries)):
        for start in range(0, len(entries), batch):
            tree = grow(tree, entries[start : start + batch]).tree
            text = str(Checkpoint(trust.log.name, tree.size, tree.root))
            bytes(Note(text, (sign_text(text, trust.log, sign),)))


def show_commands(home: TrustHome, folder: Path, size: int) -> None:
    """Export the log, and follow the exported one from nothing, as the commands do."""
    os.environ[TRUST_HOME] = str(home.folder)
    public = folder / "public"
    with timed("echelon log export", size):
        run("log", "export", str(public))
    trust = str(public / "trust.json")
    watching = ["monitor", str(public), "--trust", trust, "--home", str(folder / "seen"), "--json"]
    with timed("echelon monitor, from nothing", size):
        report = json.loads(run(*watching))
    if (report["size"], report["faults"]) != (size, []):
        raise RuntimeError(f"expected {size} entries without a fault, got {report}")
    with timed("echelon monitor, nothing new", size):
        run(*watching)


def run(*arguments: str) -> str:
    """Run a command in this process; return what it printed."""
    ended = CliRunner().invoke(cli, arguments)
    if ended.exception is not None:
        raise RuntimeError(ended.output) from ended.exception
    return ended.stdout


def show_pymerkle(entries: Sequence[bytes]) -> None:
    """Do the same tree with pymerkle, which has no files, checkpoints and signatures."""
    pymerkle: Any = importlib.import_module("pymerkle")
    tree, size = pymerkle.InmemoryTree(algorithm="sha256"), len(entries)
    with timed("pymerkle, append in memory", size):
        for entry in entries:
            tree.append_entry(entry)
    root = tree.get_root()
    with timed("pymerkle, proof of inclusion", PROOFS):
        # It counts from 1.
        proofs = [tree.prove_inclusion(index + 1) for index in some_of(size)]
    with timed("pymerkle, its check", PROOFS):
        for index, proof in zip(some_of(size), proofs, strict=True):
            pymerkle.verify_inclusion(tree.get_leaf(index + 1), root, proof)
    with timed("pymerkle, proof of consistency", PROOFS):
        for index in some_of(size):
            tree.prove_consistency(max(index, 1), size)


def main() -> None:
    """Measure with as many entries, in batches of as many, as the caller asks for."""
    count, batch = sizes(ENTRIES, BATCH)
    entries = logged(count)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = TrustHome(folder / "home")
        asyncio.run(show_folder(home, entries, batch))
        show_tree(home, entries, batch)
        show_commands(home, folder, len(entries))
    if importlib.util.find_spec("pymerkle") is not None:
        show_pymerkle(entries)


if __name__ == "__main__":
    main()
