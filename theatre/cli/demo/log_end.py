"""The end of the demo: a stranger without our software, and an operator who rewrites his log."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from theatre.api.log_network import open_log
from theatre.cli.demo.place import DemoPlace
from theatre.cli.monitor_command import Report, look_at_log
from theatre.engine.bundle_check.verifier import verifier_source
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import resource_root
from theatre.files.log_folder import LogFolder
from theatre.files.trust_home import TrustHome
from theatre.transparency.entries import EntryType, decode_entry, encode_entry
from theatre.transparency.log import CHECKPOINT, Follower, LogWriter
from theatre.transparency.notes import SignedCheckpoint
from theatre.transparency.trust import Trust

_OPENSSL = Path("docs") / "verify-with-openssl.sh"


class Stranger(NamedTuple):
    """What one learns who has a bundle and `trust.json`, and has installed nothing of ours."""

    openssl: str | None
    """What it printed; None where there is no such program."""
    verdict: str
    """The word of the one file of plain Python."""

    def as_document(self) -> JsonObject:
        """Return what `--json` says of it."""
        return {"openssl": self.openssl, "verify_bundle": self.verdict}


def check_as_a_stranger(bundle: Path, trust: Path, *, scratch: Path) -> Stranger:
    """Check a bundle by openssl, where there is one, and by `verify_bundle.py`, in `scratch`."""
    verifier = scratch / "verify_bundle.py"
    verifier.write_text(verifier_source(), encoding="utf-8")
    openssl = shutil.which("openssl")
    # Isolated from this environment. The file asks openssl about signatures; where there is none,
    # a package has to be there.
    plain = [sys.executable, "-I", *(["-S"] if openssl else []), str(verifier), str(bundle)]
    said = json.loads(_said([*plain, "--trust", str(trust), "--json"]))
    signed = None
    if openssl is not None:
        script = resource_root() / _OPENSSL
        signed = _said(["sh", str(script), str(bundle), str(trust)]).strip()
    return Stranger(openssl=signed, verdict=said["verdict"])


def _said(command: Sequence[str]) -> str:
    ended = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")  # noqa: S603 - our own files
    return ended.stdout or ended.stderr


class Watched(NamedTuple):
    """A log as a monitor has seen it, with its entries."""

    trust: Trust
    seen: Report
    entries: Sequence[bytes]


def watch_log(address: str, place: DemoPlace) -> Watched:
    """Follow a log from nothing, as `echelon monitor` does."""
    trust = Trust.parse(place.trust.read_bytes())
    return Watched(
        trust=trust,
        seen=_look(address, trust, place),
        entries=asyncio.run(_entries(address, trust)),
    )


def drop_run(watched: Watched, theatre_id: str, place: DemoPlace) -> Report:
    """Write the log again without a run, as an operator with all keys does; look once more."""
    kept = _without(watched.entries, theatre_id)
    # As long as it was: that it has become shorter would give it away at once.
    number = len(watched.entries) - len(kept)
    kept += [_filling(index) for index in range(number)]
    asyncio.run(_sign_again(kept, watched.trust, place))
    return _look(str(place.rewritten), watched.trust, place)


def _look(address: str, trust: Trust, place: DemoPlace) -> Report:
    found = look_at_log(address, trust.policy, place.monitor, now=datetime.now(UTC))
    return asyncio.run(found)


async def _entries(address: str, trust: Trust) -> list[bytes]:
    async with open_log(address) as store:
        signed = SignedCheckpoint.verify(await store.read(CHECKPOINT), [trust.log])
        return [entry async for _, entry in Follower().entries(store, signed.checkpoint)]


def _without(entries: Sequence[bytes], theatre_id: str) -> list[bytes]:
    """Return all entries but those of a theatre; what names a place names the new one."""
    kept: list[bytes] = []
    places: dict[object, int] = {}
    for index, entry in enumerate(entries):
        kind, members = decode_entry(entry)
        if members.get("theatre_id") == theatre_id:
            continue
        if "commitment_index" in members:
            members["commitment_index"] = places[members["commitment_index"]]
        places[index] = len(kept)
        kept.append(encode_entry(kind, members))
    return kept


def _filling(index: int) -> bytes:
    members: JsonObject = {"construct_id": "anything", "envelope_sha256": f"{index:064}"}
    return encode_entry(EntryType.TELEMETRY, members)


async def _sign_again(entries: Sequence[bytes], trust: Trust, place: DemoPlace) -> None:
    home = TrustHome(place.keys)
    writer = LogWriter(LogFolder(place.rewritten), trust.log, home.log_signer(trust))
    await writer.open()
    await writer.append(entries)
