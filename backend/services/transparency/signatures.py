"""Whether a stored certificate is the one that was signed.

Who can write the database can write any tier into a row. So each reader of certificates and
routing asks here: the signature must be by a key that counts, and every column of the row must
follow from the signed document. Lists are found and ordered by the columns; none is shown unless
it is signed.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.stored_certificates import (
    StoredCertificate,
    find_sigstores,
    indexed_columns,
)
from backend.repositories.transparency_log import find_revocations, find_trust
from backend.services.newest_used import NewestUsed
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import TheatreError
from theatre.transparency.errors import MalformedError
from theatre.transparency.statements import SignedStatement
from theatre.transparency.trust import Trust

_AT_MOST = 5000
_NOT_LOGGED = 2**63
"""The place of a revocation that waits for the log: everything that is logged is before it."""


class VerifiedSignature(NamedTuple):
    """What came of a certificate's signature: the id of a key that counts, or why none does.

    `entry` is the certificate's place in the log; None where the writer has not come to it.
    `findings` are those of the signed document; none where no key counts.
    """

    signed_by: str | None
    entry: int | None
    why_not: str | None = None
    findings: tuple[str, ...] = ()


class _Statement(NamedTuple):
    """Who signed it, the columns that follow from it, and its findings."""

    kid: str
    issued_at: datetime
    indexed: tuple[object, ...]
    findings: tuple[str, ...]


_Read = _Statement | str
"""What a signature was found to be of, or why it is none."""


class CertificateSignatures:
    """Verifies the signatures of certificates; each once for the bytes and the state of the keys.

    `trust_file` is the issuer's own `trust.json`, where this process has it: then a key that
    stands in the database alone counts for nothing.
    """

    def __init__(self, trust_file: Path | None) -> None:
        self._trust_file = trust_file
        self._trusts = NewestUsed[str, Trust](4)
        self._kept = NewestUsed[tuple[str, bytes], _Read](_AT_MOST)

    async def verify(
        self, connection: AsyncConnection, stored: Sequence[StoredCertificate]
    ) -> list[VerifiedSignature]:
        """Return what came of the signature of each certificate, in their order."""
        if not stored:
            return []
        trust = await self._trust(connection, stored[0].key_state)
        if trust is None:
            return [VerifiedSignature(None, one.entry, "the service has none") for one in stored]
        read = await self._statements(connection, stored, trust)
        return [_judge(one, read.get(one.id), trust) for one in stored]

    async def _statements(
        self, connection: AsyncConnection, stored: Sequence[StoredCertificate], trust: Trust
    ) -> Mapping[str, _Read]:
        keys = {one.id: (one.key_state, one.sigstore_sha256) for one in stored}
        kept = {name: self._kept.find(key) for name, key in keys.items()}
        unread = [name for name, read in kept.items() if read is None]
        found = {name: read for name, read in kept.items() if read is not None}
        if unread:
            sigstores = await find_sigstores(connection, unread)
            # In a thread: a page of a hundred would keep all other requests waiting.
            fresh = await asyncio.to_thread(_read_all, sigstores, trust)
            for name, read in fresh.items():
                digest = hashlib.sha256(sigstores[name]).digest()
                self._kept[keys[name][0], digest] = found[name] = read
        return found

    async def _trust(self, connection: AsyncConnection, key_state: str) -> Trust | None:
        kept = self._trusts.find(key_state)
        if kept is not None:
            return kept
        trust = await self.read_trust(connection)
        if trust is not None:
            self._trusts[key_state] = trust
        return trust

    async def read_trust(self, connection: AsyncConnection) -> Trust | None:
        """Return the issuer's keys as they are now, with what is revoked; None without any."""
        document = await asyncio.to_thread(self._own) or await find_trust(connection)
        try:
            trust = None if document is None else Trust.parse(document)
        except MalformedError:
            trust = None
        if trust is None:
            return None
        revocations = await find_revocations(connection)
        # A revocation counts from its entry on, before a start has written it into `trust.json`.
        keys = [
            one._replace(revoked_index=_NOT_LOGGED if said.place is None else said.place)
            if one.revoked_index is None and (said := revocations.get(one.key.kid))
            else one
            for one in trust.keys
        ]
        return trust._replace(keys=tuple(keys))

    def _own(self) -> bytes | None:
        path = self._trust_file
        return path.read_bytes() if path is not None and path.exists() else None


def _read_all(sigstores: Mapping[str, bytes], trust: Trust) -> dict[str, _Read]:
    return {name: _read(sigstore, trust) for name, sigstore in sigstores.items()}


def _read(sigstore: bytes, trust: Trust) -> _Read:
    try:
        signed = SignedStatement.verify(sigstore, trust.issuer_keys())
        document = signed.certificate()
        issued_at = parse_rfc3339(str(document["issued_at"]))
        indexed = indexed_columns(document, statement_sha256=signed.sha256)
        findings = tuple(cast("list[str]", document["findings"]))
        return _Statement(signed.kid, issued_at, indexed, findings)
    except TheatreError as error:
        return str(error)
    except KeyError as error:
        return f"expected a signed certificate, got a document without {error}"


def _judge(stored: StoredCertificate, read: _Read | None, trust: Trust) -> VerifiedSignature:
    if not isinstance(read, _Statement):
        return VerifiedSignature(None, stored.entry, read or "it changed while it was read")
    if read.indexed != stored.indexed:
        return VerifiedSignature(None, stored.entry, "it is of another certificate")
    try:
        trust.find_key(read.kid).check_entry(at=read.issued_at, index=stored.entry)
    except TheatreError as error:
        return VerifiedSignature(None, stored.entry, str(error))
    return VerifiedSignature(read.kid, stored.entry, findings=read.findings)
