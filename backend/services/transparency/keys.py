"""The keys of the service: one signs certificates, another the checkpoints of its log.

The embedded service makes both as files in its home; in production the operator names them by the
URIs of securesystemslib, and gives the `trust.json` that readers have. Source:
docs/contract/trust.md §2.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.exceptions import KeyMismatchError, UnverifiedSignatureError
from securesystemslib.signer import Key, Signer, SSlibKey
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.errors import LogUnavailableError, SettingsError
from backend.repositories.transparency_log import (
    find_revocation,
    find_trust,
    lock_trust,
    queue_entries,
    store_trust,
)
from backend.settings import Settings, variable
from theatre.engine.canonical_json import canonical_line
from theatre.engine.errors import NotFoundError
from theatre.files.trust_home import TrustHome
from theatre.transparency.entries import EntryType
from theatre.transparency.errors import MalformedError, SigningKeyError, TransparencyError
from theatre.transparency.notes import Sign
from theatre.transparency.trust import Trust, key_entry

_PROBE = b"echelon: is this the key of trust.json?\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKeys:
    """What readers trust, and what signs the log."""

    trust: Trust
    sign_log: Sign


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerKeys(LogKeys):
    """The same, and what signs certificates; `trust_file` is the `trust.json` that it is of."""

    signer: Signer
    trust_file: Path

    def signer_at(self, at: datetime) -> Signer:
        """Return what signs what was issued at `at`: by the key that counted then. Blocks.

        LogUnavailableError where that was made after this process began, or is not at hand.
        """
        try:
            trust = Trust.parse(self.trust_file.read_bytes())
            key = trust.key_at(at)
            if key.key == self.trust.keys[-1].key:
                return self.signer
            self.trust.find_key(key.key.kid)
            return TrustHome(self.trust_file.parent).signer(trust, key)
        except NotFoundError as error:
            raise LogUnavailableError(
                "expected the key that counts now, got a service from before it was made: start "
                "the service again"
            ) from error
        except (OSError, TransparencyError) as error:
            raise LogUnavailableError(str(error)) from error


def open_keys(settings: Settings, *, at: datetime) -> IssuerKeys:
    """Return the keys that the settings name; an embedded service makes its own. Blocks.

    SettingsError where a key is missing or is not the one that `trust.json` has.
    """
    named = {
        name: getattr(settings, name)
        for name in ("trust", "issuer_key", "log_key")
        if getattr(settings, name) is not None
    }
    if not named and settings.mode == "embedded":
        home = TrustHome(settings.home / "trust")
        trust = home.open(issuer=settings.issuer, at=at)
        _require_signing(trust)
        return IssuerKeys(
            trust=trust,
            signer=home.signer(trust),
            sign_log=home.log_signer(trust),
            trust_file=home.folder / "trust.json",
        )
    missing = [variable(one) for one in ("trust", "issuer_key", "log_key") if one not in named]
    if missing:
        raise SettingsError(
            f"expected {' and '.join(missing)}, got none: who runs theatres in the mode production "
            "names the keys that sign its certificates and its log; `echelon key trust FOLDER "
            "--issuer NAME` makes them"
        )
    return _named_keys(named["trust"], named["issuer_key"], named["log_key"])


def own_trust_file(settings: Settings) -> Path | None:
    """Return where this process finds the issuer's own `trust.json`; None where it has none."""
    if settings.trust is not None or settings.mode == "production":
        return settings.trust
    return settings.home / "trust" / "trust.json"


def _named_keys(path: Path, issuer_uri: str, log_uri: str) -> IssuerKeys:
    try:
        trust = Trust.parse(path.read_bytes())
    except (OSError, MalformedError) as error:
        raise SettingsError(f"expected trust.json in ECHELON_TRUST, got: {error}") from error
    log_key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(trust.log.public))
    _require_signing(trust)
    signer = _open_signer("issuer_key", issuer_uri, trust.keys[-1].key.verifier)
    log_signer = _open_signer("log_key", log_uri, log_key)

    def sign_log(message: bytes) -> bytes:
        return bytes.fromhex(log_signer.sign(message).signature)

    return IssuerKeys(trust=trust, signer=signer, sign_log=sign_log, trust_file=path)


def _require_signing(trust: Trust) -> None:
    if trust.keys[-1].revoked_index is not None:
        raise SettingsError(
            f"expected in trust.json a last key that may sign, got {trust.keys[-1].key.kid}, which "
            "is revoked: `echelon key trust FOLDER --issuer NAME --rotate` makes a new one"
        )


def _open_signer(setting: str, uri: str, public: Key) -> Signer:
    """Return the signer of a URI; SettingsError where it signs as another key or not at all."""
    wanted = f"expected in {variable(setting)} the URI of the key that trust.json has"
    try:
        signer = Signer.from_priv_key_uri(uri, public)
        signature = signer.sign(_PROBE)
        # A KMS is not asked which key it has: the first signature tells.
        public.verify_signature(signature, _PROBE)
    except (KeyMismatchError, UnverifiedSignatureError) as error:
        raise SettingsError(
            f"{wanted}, got one that signs with another key: name that key, or the trust.json of "
            "this one"
        ) from error
    except Exception as error:
        # The library of a KMS raises what it likes.
        raise SettingsError(
            f"{wanted}, got one that does not sign ({type(error).__name__}): "
            "for a file it is file2:/path"
        ) from error
    return signer


async def publish_trust(engine: AsyncEngine, trust: Trust, *, at: datetime) -> None:
    """Store the `trust.json` of this start, and queue the entries of the keys that it changes.

    SettingsError where it is of another log than the one in the database, or has dropped a key.
    """
    document = canonical_line(trust.as_document())
    async with engine.begin() as connection:
        await lock_trust(connection)
        stored = await find_trust(connection)
        if stored == document:
            return
        await store_trust(connection, document, at=at)
        if stored is not None:
            before = Trust.parse(stored)
            _require_continued(before, trust)
            known = set(map(key_entry, before.keys))
            changed = [entry for entry in map(key_entry, trust.keys) if entry not in known]
            await queue_entries(connection, EntryType.KEY, changed)


async def require_unrevoked(connection: AsyncConnection, trust: Trust) -> None:
    """Raise LogUnavailableError where the key that signs was revoked since this process began."""
    kid = trust.keys[-1].key.kid
    if await find_revocation(connection, kid) is not None:
        raise LogUnavailableError(
            f"expected a key that may sign, got {kid}, which is revoked: start the service with a "
            "new one, which `echelon key trust FOLDER --issuer NAME --revoke KID` has made"
        )


def require_counting(trust: Trust, *, at: datetime) -> None:
    """Raise LogUnavailableError where the key that signs counts only after `at`."""
    try:
        trust.check_clock(at)
    except SigningKeyError as error:
        raise LogUnavailableError(str(error)) from error


_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0


async def log_revocation(engine: AsyncEngine, trust: Trust, kid: str, *, at: datetime) -> Trust:
    """Revoke a key in the log, once, and return the trust of what the log has from then on.

    Some process must write the log meanwhile. SettingsError where the database has another log,
    NotFoundError for another's key, LogUnavailableError where nothing logs the entry.
    """
    key = trust.find_key(kid)
    async with engine.begin() as connection:
        await lock_trust(connection)
        stored = await find_trust(connection)
        if stored is None or Trust.parse(stored).log != trust.log:
            raise SettingsError(
                f"expected a database with the log {trust.log.name}, whose keys these are, got "
                f"{'another' if stored else 'one without a log'}: give the database of the service "
                "in ECHELON_DATABASE_URL, or its home in ECHELON_HOME"
            )
        if await find_revocation(connection, kid) is None:
            await queue_entries(connection, EntryType.KEY, [key_entry(key, revoked_at=at)])
    for _ in range(int(_PATIENCE_SECONDS / _LOOK_SECONDS)):
        async with engine.connect() as connection:
            found = await find_revocation(connection, kid)
        if found is not None and found.place is not None:
            return trust.revoked(kid, index=found.place)
        await asyncio.sleep(_LOOK_SECONDS)
    raise LogUnavailableError(
        "expected the revocation in the log, got no writer that signs it. The service signs with "
        "the key no more: start a service, and give the command again"
    )


def _require_continued(before: Trust, trust: Trust) -> None:
    kept = {one.key.kid for one in trust.keys}
    dropped = [one.key.kid for one in before.keys if one.key.kid not in kept]
    revoked = {one.key.kid: one.revoked_index for one in trust.keys}
    for one in before.keys:
        if one.revoked_index is not None and revoked.get(one.key.kid) != one.revoked_index:
            raise SettingsError(
                f"expected in trust.json that {one.key.kid} is revoked at entry "
                f"{one.revoked_index} of the log, got an older file: take the one that `echelon "
                "key trust` has written, and its keys"
            )
    if before.log != trust.log or dropped:
        raise SettingsError(
            f"expected the keys of the log {before.log.name}, which this database has, and every "
            f"key that ever signed for it, got {trust.log.name}, without {len(dropped)} of them: "
            "all processes of a database share one trust.json and its keys"
        )
