"""`echelon witness serve`: cosign checkpoints of logs that continue what was seen of them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import click
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from theatre.api.log_network import MAX_FILE_BYTES
from theatre.cli.exits import echo
from theatre.files.durable import replace_durably
from theatre.files.trust_home import trust_folder
from theatre.transparency.errors import MalformedError
from theatre.transparency.notes import KeyKind, VerifierKey
from theatre.transparency.proofs import WitnessRequest
from theatre.transparency.witness import SIZE_TYPE, Witness, WitnessRefusedError


def witness_key(folder: Path, name: str) -> tuple[VerifierKey, Ed25519PrivateKey]:
    """Return the witness's key; the first time, it is made, readable by the user alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "witness.pem"
    if not path.exists():
        made = Ed25519PrivateKey.generate()
        pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace_durably(path, pem, mode=0o600)
    private = load_pem_private_key(path.read_bytes(), None)
    if not isinstance(private, Ed25519PrivateKey):
        raise MalformedError(f"expected an Ed25519 key in {path}, got another")
    public = private.public_key().public_bytes_raw()
    return VerifierKey(name, KeyKind.WITNESS, public), private


class WitnessApp:
    """Answers logs over HTTP. It keeps the last checkpoint of each, and what contradicts one."""

    def __init__(self, witness: Witness, folder: Path) -> None:
        self._witness = witness
        self._folder = folder
        # Looking and keeping must be one step: else a slow request could roll a newer one back.
        self._turn = asyncio.Lock()

    def application(self) -> web.Application:
        """Return the routes of C2SP tlog-witness."""
        application = web.Application(client_max_size=MAX_FILE_BYTES)
        application.router.add_post("/add-checkpoint", self._add)
        application.router.add_get("/{origin}/checkpoint", self._show)
        return application

    async def _add(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            asked = WitnessRequest.parse(body)
            origin = self._witness.origin_of(asked)
            async with self._turn:
                path = self._path(origin)
                last = path.read_bytes() if path.exists() else None
                cosigned = self._witness.cosign(asked, last, at=int(time.time()))
                await asyncio.to_thread(replace_durably, path, cosigned.checkpoint)
        except MalformedError as error:
            return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{error}\n")
        except WitnessRefusedError as error:
            if error.evidence:
                await asyncio.to_thread(self._keep, body)
            if error.size is not None:
                sized = f"{error.size}\n".encode()
                return web.Response(status=error.status, body=sized, content_type=SIZE_TYPE)
            return web.Response(status=error.status, text=f"{error}\n")
        return web.Response(text=str(cosigned.answer))

    async def _show(self, request: web.Request) -> web.Response:
        path = self._folder / f"{request.match_info['origin']}.checkpoint"
        known = {self._path(origin) for origin in self._witness.logs}
        if path not in known or not path.exists():
            return web.Response(status=HTTPStatus.NOT_FOUND)
        return web.Response(body=path.read_bytes(), content_type="text/plain", charset="utf-8")

    def _path(self, origin: str) -> Path:
        return self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.checkpoint"

    def _keep(self, body: bytes) -> None:
        """Keep what a log signed against its own last checkpoint: the proof of two trees."""
        at = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        (self._folder / "evidence").mkdir(exist_ok=True)
        replace_durably(self._folder / "evidence" / f"{at}.request", body)
        echo(f"evidence: a log showed two trees, kept as evidence/{at}.request", err=True)


@click.group()
def witness() -> None:
    """Watch logs of others: cosign what continues, refuse and keep what does not."""


@witness.command()
@click.option("--name", required=True, help="The witness's name in policies: a URL without scheme.")
@click.option(
    "--log",
    "logs",
    multiple=True,
    required=True,
    help="The key of a log to follow, as `echelon trust show` prints it. Repeatable.",
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8090, show_default=True)
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where key and checkpoints lie; the user's state folder by default.",
)
def serve(name: str, logs: tuple[str, ...], host: str, port: int, home: Path | None) -> None:
    """Serve the witness until it is stopped. It prints its key for the policies of others."""
    folder = home or trust_folder(os.environ) / "witness"
    key, private = witness_key(folder, name)
    followed: dict[str, list[VerifierKey]] = {}
    for text in logs:
        log = VerifierKey.parse(text)
        followed.setdefault(log.name, []).append(log)
    application = WitnessApp(Witness(key, private.sign, followed), folder).application()
    asyncio.run(_serve(application, key, host, port))


async def _serve(application: web.Application, key: VerifierKey, host: str, port: int) -> None:
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    address = runner.addresses[0]
    echo(f"key      {key}")
    echo(f"serving  http://{address[0]}:{address[1]}")
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
