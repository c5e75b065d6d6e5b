"""Object stores for tests: server processes of two makers that speak the S3 protocol."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.theatre.echelon_process import until

BUCKET = "evidence"
_SECRET = "only-for-tests"  # noqa: S105 - of servers that exist for a test
_BESIDE_PYTHON = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running server with one bucket."""

    port: int
    prefix: str = "theatres"
    process: subprocess.Popen[bytes] | None = None
    """Where it is that of a server which is to be killed."""

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    @property
    def variables(self) -> dict[str, str]:
        """What the environment says to whoever uses the bucket."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
        }

    def put(self, key: str, content: bytes) -> None:
        """Put an object as somebody else who may write to the bucket."""
        obstore.put(self._bucket(), key, content)

    def sizes(self) -> dict[str, int]:
        """Return the size of everything below the prefix."""
        pages = obstore.list(self._bucket())
        return {meta["path"]: meta["size"] for page in pages for meta in page}

    def remove(self, key: str) -> None:
        """Remove an object as somebody else who may."""
        obstore.delete(self._bucket(), key)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _bucket(self) -> S3Store:
        return S3Store.from_url(
            self.url,
            endpoint=f"http://127.0.0.1:{self.port}",
            access_key_id="tests",
            secret_access_key=_SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@contextlib.contextmanager
def moto(port: int) -> Iterator[ObjectStore]:
    """Serve an emulator that holds everything in memory."""
    with _running(["moto_server", "-H", "127.0.0.1", "-p", str(port)], port) as process:
        made = socket.create_connection(("127.0.0.1", port), timeout=10)
        with made:
            made.sendall(f"PUT /{BUCKET} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert b" 200 " in made.recv(100)
        yield ObjectStore(port, process=process)


@contextlib.contextmanager
def rclone(port: int, folder: Path) -> Iterator[ObjectStore]:
    """Serve a folder; it checks signatures, and its objects outlive it."""
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    keys = f"tests,{_SECRET}"
    command = ["rclone", "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", keys]
    configured = ["--config", str(folder / "rclone.conf"), "--vfs-cache-mode", "off"]
    with _running([*command, *configured, str(folder)], port) as process:
        yield ObjectStore(port, process=process)


@contextlib.contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    program = str(_BESIDE_PYTHON / command[0])
    with subprocess.Popen(
        [program, *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: process.poll() is not None or _answers(port), f"{command[0]}")
            assert process.poll() is None
            yield process
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
