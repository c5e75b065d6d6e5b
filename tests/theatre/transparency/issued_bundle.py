"""A sealed bundle with its proofs, made in the order in which an issuer makes them."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.theatre.runs import BEGIN, COIN, ScriptedAdapter, Stage, episodes, pilot_stage
from tests.theatre.transparency.log_stage import Signer, signer
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line
from theatre.engine.clock import parse_rfc3339
from theatre.engine.commitment import close_by
from theatre.files.trust_home import TrustHome
from theatre.transparency.bundle_proofs import (
    certificate_entry,
    commitment_entry,
    commitment_log,
    run_nonce,
)
from theatre.transparency.log import LogWriter, prove_inclusion
from theatre.transparency.notes import KeyKind, Note, SignedCheckpoint, cosign_text
from theatre.transparency.policy import Policy
from theatre.transparency.statements import certificate_statement, sign_statement
from theatre.transparency.trust import Trust

WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
EPISODES = episodes(3)
IN_A_DAY: Mapping[str, JsonValue] = {
    "/schema_version": "2.2.0",
    "/execution_policy/close_within_days": 1,
}
SEEN = int(BEGIN.timestamp()) + 3600
"""When the witness sees checkpoints, in seconds since 1970."""


@dataclass(frozen=True)
class IssuedBundle:
    """A bundle with its proofs, the folder of the issuer's keys, and his `trust.json`."""

    bundle: Path
    home: TrustHome
    trust: Trust
    close_by: datetime

    @property
    def certificate(self) -> JsonObject:
        """Return the certificate."""
        document: JsonObject = json.loads((self.bundle / "certificate.json").read_bytes())
        return document

    def trust_file(self, folder: Path, **changes: Any) -> Path:  # noqa: ANN401 - members of Trust
        """Write the issuer's trust.json, changed, to where a reader keeps it."""
        path = folder / "trust.json"
        path.write_bytes(canonical_line(self.trust._replace(**changes).as_document()))
        return path

    def append(self, *entries: bytes) -> None:
        """Log more, as the issuer with his keys can."""
        asyncio.run(_append(self.home, self.trust, entries, None))


def asking_for(trust: Trust, witness: Signer) -> dict[str, Any]:
    """Return the members of a trust that asks for a witness."""
    text = f"log {trust.log}\nwitness w {witness.key}\nquorum w\n"
    return {"policy": Policy.parse(text.encode()), "policy_text": text}


def issue_bundle(
    folder: Path,
    *,
    witness: Signer | None = None,
    salted: bool = False,
    named: bool = True,
    between: Callable[[int], Sequence[bytes]] = lambda _: (),
    before: Callable[[Trust], Sequence[bytes]] = lambda _: (b"another",),
    changes: Mapping[str, JsonValue] | None = None,
    waits: timedelta = timedelta(0),
) -> IssuedBundle:
    """Commit, log, run, sign and log again: a bundle of three episodes with all its proofs.

    `before` is logged before the commitment, `between` (of its index) behind it; `named`: the
    statement says where that stands; `waits`: so long after the commitment it is run.
    """
    stage = pilot_stage(folder / "run", EPISODES, changes=changes)
    committed_at = parse_rfc3339(stage.receipt.committed_at)
    home = TrustHome(folder / "issuer")
    trust = home.open(issuer="Ada", at=committed_at - timedelta(days=1))
    day, clock = close_by(stage.template, committed_at), stage.clock
    stage.clock = lambda: clock() + waits
    made = IssuedBundle(Path(), home, trust, day)
    return asyncio.run(
        _issue(stage, made, witness, before(trust), between, salted=salted, named=named)
    )


async def _issue(
    stage: Stage,
    made: IssuedBundle,
    witness: Signer | None,
    before: Sequence[bytes],
    between: Callable[[int], Sequence[bytes]],
    *,
    salted: bool,
    named: bool,
) -> IssuedBundle:
    home, trust = made.home, made.trust
    config: Any = stage.template["product_theatre_config"]
    pins: Any = stage.receipt.version_pins
    about: JsonObject = {
        "theatre_id": stage.theatre_id,
        "construct_id": config["construct_under_test"],
        "construct_version": pins["constructs"][config["construct_under_test"]],
        "template_id": stage.template["theatre_id"],
        "commitment_hash": stage.receipt.commitment_hash,
        "coin_sha256": stage.receipt.coin_sha256,
    }
    entry = commitment_entry(about, close_by=made.close_by, salt=COIN.secret if salted else None)
    indices, first = await _append(home, trust, (*before, entry), witness)
    commitment = await prove_inclusion(home.log, indices[-1], first)
    nonce = run_nonce(first)
    adapter = ScriptedAdapter()
    finished = await stage.perform(adapter, around=lambda one: replace(one, run_nonce=nonce))
    issued = replace(made, bundle=finished.bundle)
    logged = commitment_log(commitment, SignedCheckpoint.verify(first, [trust.log]))
    payload = certificate_statement(issued.certificate, logged if named else None)
    entry = certificate_entry(issued.certificate, payload, commitment.index)
    rest = (*between(commitment.index), entry)
    (*_, index), last = await _append(home, trust, rest, witness)
    proofs = finished.bundle / "proofs"
    proofs.mkdir()
    for name, data in {
        "commitment.tlog-proof": bytes(commitment),
        "certificate.sigstore.json": sign_statement(payload, home.signer(trust)),
        "certificate.tlog-proof": bytes(await prove_inclusion(home.log, index, last)),
        "trust.json": canonical_line(trust.as_document()),
    }.items():
        (proofs / name).write_bytes(data)
    return issued


async def _append(
    home: TrustHome, trust: Trust, entries: Sequence[bytes], witness: Signer | None
) -> tuple[tuple[int, ...], bytes]:
    """Return where entries stand and the checkpoint, cosigned where there is a witness."""
    writer = LogWriter(home.log, trust.log, home.log_signer(trust))
    await writer.open()
    appended = await writer.append(entries)
    checkpoint = appended.checkpoint
    if witness is not None:
        text = Note.parse(checkpoint).text
        line = cosign_text(text, witness.key, witness.sign, at=SEEN)
        checkpoint = await writer.add_cosignatures([line])
    return appended.indices, checkpoint
