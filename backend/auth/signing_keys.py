"""The keys that sign tokens: a JSON Web Key Set (RFC 7517) in one file, read again when it changes.

    {"keys": [{"kty": "EC", "crv": "P-256", "kid": "2026-11", "x": …, "y": …, "d": …}, …]}

Every key in the file verifies; the last one that has its private part `d` signs. To rotate: append
a key; when the longest token has expired, remove the old one.
"""

import base64
import json
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from backend.errors import SigningKeysError
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import ParseError

ALGORITHM = "ES256"
_EXPECTED = 'a JSON Web Key Set {"keys": [{"kty": "EC", "crv": "P-256", "kid": …}]}'


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of one reading of the file."""

    by_id: dict[str, PyJWK]
    signing_id: str

    @property
    def signing(self) -> PyJWK:
        """Return the key that new tokens are signed with."""
        return self.by_id[self.signing_id]


class KeyFile:
    """The key set of a file. The file's owner alone may read it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _file_stamp(path)
        self._keys = _read(path)

    def current(self) -> KeySet:
        """Return the keys in the file now; SigningKeysError where it cannot be used any more."""
        mark = _file_stamp(self._path)
        if mark != self._seen:
            self._keys = _read(self._path)
            self._seen = mark
        return self._keys


def make_key_file(path: Path) -> None:
    """Make a file with one new key, mode 0600, unless there is a file; safe for two at once."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps({"keys": [new_key()]}, indent=2).encode())
            file.flush()
            os.fsync(file.fileno())
        # A link fails where the file exists: two processes may start at once, and the key of the
        # first must not be replaced, because it may have signed tokens already.
        os.link(draft, path)
    except FileExistsError:
        pass  # Another process was first: its key is used.
    finally:
        draft.unlink()


def new_key() -> JsonObject:
    """Return a new private key on P-256 as a JSON Web Key."""
    private = ec.generate_private_key(ec.SECP256R1()).private_numbers()
    numbers = {
        "x": private.public_numbers.x,
        "y": private.public_numbers.y,
        "d": private.private_value,
    }
    coordinates = {name: _base64url(number) for name, number in numbers.items()}
    return {"kty": "EC", "crv": "P-256", "kid": secrets.token_hex(8), **coordinates}


def _base64url(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32, "big")).rstrip(b"=").decode()


def _file_stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise SigningKeysError(
            f"expected the keys that sign tokens in {path}, got: {error.strerror}"
        ) from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SigningKeysError(
            f"expected {path} to be its owner's alone, got mode {stat.S_IMODE(status.st_mode):o}: "
            "chmod 600"
        )
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(path: Path) -> KeySet:
    try:
        entries = parse_object(path.read_bytes())["keys"]
        keys = [_key(entry) for entry in entries] if isinstance(entries, list) else []
    except (OSError, ParseError, KeyError, PyJWTError, ValueError) as error:
        # The error of a parser may hold what it read.
        raise SigningKeysError(
            f"expected {_EXPECTED} in {path}, got something else ({type(error).__name__})"
        ) from None
    signing = [kid for kid, key, private in keys if private]
    by_id = {kid: key for kid, key, _ in keys}
    if not signing or len(by_id) != len(keys):
        raise SigningKeysError(
            f"expected {_EXPECTED} in {path}, with different ids and a private key ('d'), got "
            f"{len(keys)} keys with {len(by_id)} ids, {len(signing)} of them private"
        )
    return KeySet(by_id, signing[-1])


def _key(entry: object) -> tuple[str, PyJWK, bool]:
    if not isinstance(entry, dict) or (entry.get("kty"), entry.get("crv")) != ("EC", "P-256"):
        raise ValueError("not a key on P-256")
    kid = entry["kid"]
    if not isinstance(kid, str) or not kid:
        raise ValueError("no id")
    return kid, PyJWK(entry, algorithm=ALGORITHM), "d" in entry
