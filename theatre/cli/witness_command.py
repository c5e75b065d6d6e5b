"""`echelon witness serve`: cosign checkpoints of logs that continue what was seen of them."""

import hashlib
import os
import re
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeAlias

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from theatre.api.log_network import MAX_FILE_BYTES
from theatre.cli.exits import echo
from theatre.engine.canonical_json import sha256_hex
from theatre.files.durable import replace_durably
from theatre.files.trust_home import trust_folder
from theatre.transparency.errors import MalformedError
from theatre.transparency.notes import KeyKind, Note, VerifierKey
from theatre.transparency.proofs import WitnessRequest
from theatre.transparency.witness import SIZE_TYPE, Witness, WitnessRefusedError

_Answer: TypeAlias = tuple[int, str, bytes]
"""Status, media type, body."""
_TEXT = "text/plain; charset=utf-8"
_NOWHERE: _Answer = (HTTPStatus.NOT_FOUND, _TEXT, b"")


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


class WitnessServer(ThreadingHTTPServer):
    """Answers logs over HTTP, as C2SP tlog-witness has it.

    It keeps the last checkpoint of each, and what contradicts one.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], witness: Witness, folder: Path) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Exchange)
        self._witness = witness
        self._folder = folder
        # Looking and keeping must be one step: else a slow request could roll a newer one back.
        self._turn = threading.Lock()

    @property
    def url(self) -> str:
        """Return where it can be asked."""
        host, port, *_ = self.server_address
        return f"http://{host!s}:{port}"

    def add(self, body: bytes) -> _Answer:
        """Return what is said to `POST /add-checkpoint`."""
        last = None
        try:
            asked = WitnessRequest.parse(body)
            origin = self._witness.origin_of(asked)
            with self._turn:
                path = self._path(origin)
                last = path.read_bytes() if path.exists() else None
                cosigned = self._witness.cosign(asked, last, at=int(time.time()))
                replace_durably(path, cosigned.checkpoint)
        except MalformedError as error:
            return HTTPStatus.BAD_REQUEST, _TEXT, f"{error}\n".encode()
        except WitnessRefusedError as error:
            if error.evidence:
                self._keep(error.evidence, last, str(error))
            if error.size is not None:
                return error.status, SIZE_TYPE, f"{error.size}\n".encode()
            return error.status, _TEXT, f"{error}\n".encode()
        return HTTPStatus.OK, _TEXT, str(cosigned.answer).encode()

    def show(self, name: str) -> _Answer:
        """Return what is said to `GET /<hash of an origin>/checkpoint`."""
        path = self._folder / f"{name}.checkpoint"
        known = {self._path(origin) for origin in self._witness.logs}
        if path not in known or not path.exists():
            return HTTPStatus.NOT_FOUND, _TEXT, b""
        return HTTPStatus.OK, _TEXT, path.read_bytes()

    def _path(self, origin: str) -> Path:
        return self._folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.checkpoint"

    def _keep(self, shown: bytes, seen: bytes | None, why: str) -> None:
        """Keep a checkpoint that a log signed, and the last one, which it does not continue."""
        # By what the log signed: a stranger who sends it again and again takes no room.
        name = f"evidence/{sha256_hex(Note.parse(shown).text.encode())}"
        folder = self._folder / name
        if (folder / "shown").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        if seen is not None:
            replace_durably(folder / "seen", seen)
        replace_durably(folder / "shown", shown)
        echo(f"evidence: {why}; both checkpoints are kept in {name}", err=True)


class _Exchange(BaseHTTPRequestHandler):
    server: WitnessServer
    timeout = 30
    """Seconds without a byte after which a connection is closed."""

    def do_GET(self) -> None:  # as the base class has it
        """Show the last checkpoint of a log."""
        name, slash, rest = self.path.removeprefix("/").partition("/")
        is_shown = slash and rest == "checkpoint"
        self._answer(*(self.server.show(name) if is_shown else _NOWHERE))

    def do_POST(self) -> None:  # as the base class has it
        """Take a checkpoint."""
        length = self.headers.get("Content-Length", "")
        if self.path != "/add-checkpoint":
            self._answer(*_NOWHERE)
        elif not re.fullmatch(r"[0-9]{1,9}", length):
            self._answer(HTTPStatus.LENGTH_REQUIRED, _TEXT, b"")
        elif int(length) > MAX_FILE_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TEXT, b"")
        else:
            self._answer(*self.server.add(self.rfile.read(int(length))))

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class
        """Log nothing."""


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
    with WitnessServer((host, port), Witness(key, private.sign, followed), folder) as server:
        echo(f"key      {key}")
        echo(f"serving  {server.url}")
        server.serve_forever()
