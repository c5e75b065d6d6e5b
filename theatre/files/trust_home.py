"""The issuer of a command line: his keys, his `trust.json` and his log, in one folder of the user.

One issuer a person and not one a working folder. Source: docs/contract/trust.md §2.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from theatre.engine.canonical_json import canonical_line
from theatre.files.durable import replace_durably
from theatre.files.log_folder import LogFolder
from theatre.files.open_commitments import OpenCommitments
from theatre.transparency.errors import SigningKeyError
from theatre.transparency.log import CHECKPOINT, sign_tree
from theatre.transparency.notes import Checkpoint, KeyKind, Note, Sign, VerifierKey
from theatre.transparency.policy import Policy
from theatre.transparency.statements import IssuerKey
from theatre.transparency.tiles import Tree
from theatre.transparency.trust import Trust, TrustedKey

if TYPE_CHECKING:
    from securesystemslib.signer import Signer

TRUST_HOME: Final = "ECHELON_TRUST_HOME"
_PRIVATE: Final = 0o600
_TRUST: Final = "trust.json"
_ISSUER: Final = "issuer.pem"
_LOG: Final = "log.pem"
_COPIES: Final = "copies"

_parse_trust = functools.lru_cache(maxsize=4)(Trust.parse)
"""A command reads the same bytes several times; each key in them is checked once."""


def trust_folder(environment: Mapping[str, str]) -> Path:
    """Return ECHELON_TRUST_HOME, or `echelon` in the user's state folder.

    SigningKeyError where there is neither: a user of a container may have no home.
    """
    if named := environment.get(TRUST_HOME):
        return Path(named)
    try:
        state = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise SigningKeyError(
            "expected a home folder, in which your keys and your log are, got none: set "
            f"{TRUST_HOME} to a folder that lasts, or HOME"
        ) from error
    return Path(state) / "echelon"


@dataclass(frozen=True, slots=True)
class TrustHome:
    """An issuer's folder; `log` keeps the places of entries that it has read."""

    folder: Path
    log: LogFolder = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Open the log once: each of its readers would read all places anew."""
        object.__setattr__(self, "log", LogFolder(self.folder / "log"))

    @property
    def open_commitments(self) -> OpenCommitments:
        """Return what the log has still to close."""
        return OpenCommitments(self.folder / "open")

    def read(self) -> Trust | None:
        """Return the issuer's trust; None where no run has made one."""
        path = self.folder / _TRUST
        return _parse_trust(path.read_bytes()) if path.exists() else None

    def open(self, *, issuer: str, at: datetime) -> Trust:
        """Return the issuer's trust; the first time, keys are made, readable by the user alone.

        Three keys, never one: who steals the log's must not be able to issue certificates.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone(self.folder):
            trust = self.read()
            if trust is None:
                self._require_no_log()
                log, key = self._make_log(), self._make_issuer()
                text = f"log {log}\nquorum none\n"
                trust = Trust(
                    issuer=issuer,
                    keys=(TrustedKey.made(key, at=at),),
                    log=log,
                    policy=Policy.parse(text.encode()),
                    policy_text=text,
                )
                self.write(trust)
        return trust

    def write(self, trust: Trust) -> None:
        """Put the trust where readers look."""
        replace_durably(self.folder / _TRUST, canonical_line(trust.as_document()))

    def copies(self) -> list[str]:
        """Return the folders that the log was exported to and that are still there."""
        path = self.folder / _COPIES
        lines = path.read_bytes().splitlines() if path.exists() else []
        places = map(os.fsdecode, lines)
        return [place for place in places if (Path(place) / CHECKPOINT).exists()]

    def remember_copy(self, folder: Path) -> None:
        """Have the log held to a copy from now on."""
        with _alone(self.folder):
            places = dict.fromkeys([*self.copies(), str(folder.resolve())])
            lines = b"".join(os.fsencode(place) + b"\n" for place in places)
            replace_durably(self.folder / _COPIES, lines)

    def rotate(self, trust: Trust, *, at: datetime) -> Trust:
        """Make a new issuer's key, which signs from now on; the old file is kept under its id."""
        with _alone(self.folder):
            old = self.folder / _ISSUER
            # A key that was lost is rotated, too.
            with contextlib.suppress(FileNotFoundError):
                old.rename(self.folder / _kept_as(trust.keys[-1].key))
            rotated = trust.rotated(self._make_issuer(), at=at)
            self.write(rotated)
        return rotated

    def signer(self, trust: Trust, of: TrustedKey | None = None) -> Signer:
        """Return what signs certificates, with the last key or one that came before it.

        SigningKeyError where it is not the trusted key, or is not there any more.
        """
        key = (of or trust.keys[-1]).key
        name = _ISSUER if key == trust.keys[-1].key else _kept_as(key)
        private = self._private(name)
        if (
            not isinstance(private, EllipticCurvePrivateKey)
            or IssuerKey.of(private.public_key()) != key
        ):
            raise SigningKeyError(f"expected the key {key.kid} in {name}, got another")
        from securesystemslib.signer import CryptoSigner  # noqa: PLC0415 - as in statements.py

        return CryptoSigner(private, key.verifier)

    def has_keys(self) -> bool:
        """Return whether the log's key lies here, and not in a KMS."""
        return (self.folder / _LOG).exists()

    def log_signer(self, trust: Trust) -> Sign:
        """Return what signs checkpoints; SigningKeyError where it is not the trusted key."""
        private = self._private(_LOG)
        if not isinstance(private, Ed25519PrivateKey) or _log_key(private) != trust.log:
            raise SigningKeyError(f"expected the key of {trust.log.name} in {_LOG}, got another")
        return private.sign

    def _private(self, name: str) -> PrivateKeyTypes:
        try:
            return load_pem_private_key((self.folder / name).read_bytes(), None)
        except FileNotFoundError as error:
            raise SigningKeyError(
                f"expected the private key {name} in {self.folder}, next to the trust.json that "
                "names it, got none: bring it back from where you keep it. Nothing is signed with "
                "another key in its place; `echelon trust rotate` makes a new issuer's key"
            ) from error

    def _require_no_log(self) -> None:
        """Refuse to become another issuer next to a log that was brought back without its keys."""
        path = self.folder / "log" / CHECKPOINT
        if path.exists() and Checkpoint.parse(Note.parse(path.read_bytes()).text).size:
            raise SigningKeyError(
                f"expected {_TRUST}, {_ISSUER} and {_LOG} next to the log in {self.folder}, got "
                "a log alone: bring them back with it"
            )

    def _make_issuer(self) -> IssuerKey:
        private = generate_private_key(SECP256R1())
        self._keep(_ISSUER, private)
        return IssuerKey.of(private.public_key())

    def _make_log(self) -> VerifierKey:
        private = Ed25519PrivateKey.generate()
        self._keep(_LOG, private)
        key = _log_key(private)
        # Begun before `trust.json` is there: an issuer's log that is gone later was lost, and a
        # new one by the same key would be a second tree.
        self.log.begin(sign_tree(Tree(), key, private.sign))
        return key

    def _keep(self, name: str, private: EllipticCurvePrivateKey | Ed25519PrivateKey) -> None:
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        replace_durably(self.folder / name, pem, mode=_PRIVATE)


def _kept_as(key: IssuerKey) -> str:
    return f"issuer-{key.kid[:16]}.pem"


def _log_key(private: Ed25519PrivateKey) -> VerifierKey:
    """Return the log's key under a name that no other log has: it is made of the key."""
    public = private.public_key().public_bytes_raw()
    return VerifierKey(f"echelon.local/{public.hex()[:16]}", KeyKind.LOG, public)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes of the user away while keys are made."""
    import fcntl  # noqa: PLC0415 - a reader on another system needs no lock

    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, _PRIVATE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
