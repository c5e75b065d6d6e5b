"""`trust.json`: which keys an issuer signs with, when each counted, and which log he writes.

Source: docs/contract/trust.md §2. Keys are never dropped: a certificate of last year names one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import ClockError, NotFoundError, ParseError
from theatre.transparency.entries import EntryType, encode_entry
from theatre.transparency.errors import MalformedError, SignatureError, SigningKeyError
from theatre.transparency.notes import VerifierKey, decode_base64, encode_base64
from theatre.transparency.policy import Policy
from theatre.transparency.statements import IssuerKey, SignedStatement


class TrustedKey(NamedTuple):
    """An issuer's key and the time in which its signatures count.

    `revoked_index` is the place of its revocation in the log: what the log has behind it does not
    count, whatever time it states; a thief of the key sets his clock as he likes.
    """

    key: IssuerKey
    valid_from: datetime
    valid_until: datetime | None = None
    revoked_index: int | None = None

    @classmethod
    def made(cls, key: IssuerKey, *, at: datetime) -> TrustedKey:
        """Return a key that counts from `at` on.

        From the beginning of that second: witnesses tell whole seconds, and one that signs at once
        would else seem to have seen a signature before its key.
        """
        return cls(key=key, valid_from=at.replace(microsecond=0))

    def ended(self, *, at: datetime) -> TrustedKey:
        """Return the key until the end of the second of `at`, or until it had ended before."""
        if self.valid_until is not None:
            return self
        after = at if at.microsecond == 0 else at.replace(microsecond=0) + timedelta(seconds=1)
        return self._replace(valid_until=after)

    def check_entry(self, *, at: datetime, index: int | None) -> None:
        """Raise SignatureError unless it counted at `at`, and at `index` of the log.

        `index` is None for a certificate that no log has: a revoked key vouches for none of those.
        """
        until = self.valid_until
        if at < self.valid_from or (until is not None and at > until):
            span = (
                f"{format_rfc3339(self.valid_from)} to {format_rfc3339(until) if until else 'now'}"
            )
            raise SignatureError(f"expected a signature from {span}, got {format_rfc3339(at)}")
        if self.revoked_index is not None and (index is None or index >= self.revoked_index):
            raise SignatureError(f"expected a key that is not revoked, got {self.key.kid}")

    def as_document(self) -> JsonObject:
        """Return the form in `trust.json`."""
        until = self.valid_until
        return {
            "kid": self.key.kid,
            "public_key": encode_base64(self.key.der),
            "valid_from": format_rfc3339(self.valid_from),
            "valid_until": None if until is None else format_rfc3339(until),
            "revoked_index": self.revoked_index,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> TrustedKey:
        """Read one member of `keys`; what is wrong raises what the caller turns into one error."""
        until, revoked = document["valid_until"], document["revoked_index"]
        key = IssuerKey(decode_base64(document["public_key"]))
        if key.kid != document["kid"] or type(revoked) not in {int, type(None)}:
            raise MalformedError("expected the id of each key to be its hash, got another")
        return cls(
            key=key,
            valid_from=parse_rfc3339(document["valid_from"]),
            valid_until=None if until is None else parse_rfc3339(until),
            revoked_index=revoked,
        )


class Trust(NamedTuple):
    """Whom a reader trusts: an issuer's keys, the key of his log, and a policy of witnesses.

    `keys` begins with the oldest; the last one signs. `url` is where the log is served, if it is.
    """

    issuer: str
    keys: tuple[TrustedKey, ...]
    log: VerifierKey
    policy: Policy
    policy_text: str
    url: str | None = None

    @classmethod
    def parse(cls, data: bytes) -> Trust:
        """Read `trust.json`; MalformedError for another document."""
        try:
            document: Any = parse_object(data)
            text, log = document["policy"], document["log"]
            url, origin = log["url"], log["origin"]
            trust = cls(
                issuer=_text(document["issuer"]),
                keys=tuple(map(TrustedKey.from_document, document["keys"])),
                log=VerifierKey.parse(_text(log["vkey"])),
                policy=Policy.parse(_text(text).encode()),
                policy_text=text,
                url=None if url is None else _text(url),
            )
        except (ParseError, KeyError, TypeError, AttributeError, ClockError) as error:
            raise MalformedError(f"expected a trust.json, got another document: {error}") from error
        once = len({one.key.kid for one in trust.keys}) == len(trust.keys)
        if not once or origin != trust.log.name:
            raise MalformedError("expected a trust.json with each key once, got another")
        return trust

    def as_document(self) -> JsonObject:
        """Return the document that `/.well-known/echelon/trust.json` has."""
        keys: list[JsonValue] = [key.as_document() for key in self.keys]
        return {
            "issuer": self.issuer,
            "keys": keys,
            "log": {"origin": self.log.name, "vkey": str(self.log), "url": self.url},
            "policy": self.policy_text,
        }

    def issuer_keys(self) -> Sequence[IssuerKey]:
        """Return all keys: whether one counted is asked of the signature's time."""
        return [trusted.key for trusted in self.keys]

    def check_signer(self, signed: SignedStatement, *, at: datetime, index: int | None) -> None:
        """Raise SignatureError unless the statement's key counted then; as `check_entry`."""
        for trusted in self.keys:
            if trusted.key.kid == signed.kid:
                trusted.check_entry(at=at, index=index)

    def check_clock(self, at: datetime) -> None:
        """Raise SigningKeyError where the key that signs does not count yet at `at`."""
        last = self.keys[-1]
        if at < last.valid_from:
            raise SigningKeyError(
                f"expected a clock past {format_rfc3339(last.valid_from)}, from when on the key "
                f"{last.key.kid} counts, got {format_rfc3339(at)}: set the clock right, or rotate "
                "the key where it was wrong when this one was made"
            )

    def key_at(self, at: datetime) -> TrustedKey:
        """Return the key that signs what was issued at `at`, as it counted then.

        Raises SigningKeyError where none did: what another one signs is not valid, for ever.
        """
        for one in reversed(self.keys):
            with contextlib.suppress(SignatureError):
                one.check_entry(at=at, index=None)
                return one
        raise SigningKeyError(f"expected a key that counted at {format_rfc3339(at)}, got none")

    def rotated(self, key: IssuerKey, *, at: datetime) -> Trust:
        """Return the trust in which `key` signs from `at` on, and the last one until then."""
        *older, last = self.keys
        return self._replace(keys=(*older, last.ended(at=at), TrustedKey.made(key, at=at)))

    def find_key(self, kid: str) -> TrustedKey:
        """Return a key by its id; NotFoundError for another's."""
        for one in self.keys:
            if one.key.kid == kid:
                return one
        known = ", ".join(one.key.kid for one in self.keys)
        raise NotFoundError(f"expected one of your keys ({known}), got {kid!r:.100}")

    def revoked(self, kid: str, *, index: int) -> Trust:
        """Return the trust in which `kid` is revoked from entry `index` of the log on."""
        keys = tuple(
            one._replace(revoked_index=index) if one.key.kid == kid else one for one in self.keys
        )
        return self._replace(keys=keys)

    def caught_up(self, logged: Iterable[tuple[int, JsonObject]]) -> Trust:
        """Return the trust with what its log has of keys: later ones, their ends, revocations.

        `logged` are entries of keys, each with its index.
        """
        keys = {one.key.kid: one for one in self.keys}
        for index, members in logged:
            said = TrustedKey.from_document({**members, "revoked_index": None})
            known = keys.get(said.key.kid, said)
            revoked = index if members["revoked_at"] is not None else None
            keys[said.key.kid] = known._replace(
                valid_until=known.valid_until or said.valid_until,
                revoked_index=revoked if known.revoked_index is None else known.revoked_index,
            )
        return self._replace(keys=tuple(keys.values()))


def key_entry(trusted: TrustedKey, *, revoked_at: datetime | None = None) -> bytes:
    """Return the log's entry for an issuer's key, as it stands now; or the one that revokes it."""
    # A revoked key may never have been rotated: its entry is the same whenever it is made.
    until = trusted.valid_until if revoked_at is None else None
    members: JsonObject = {
        "role": "issuer",
        "kid": trusted.key.kid,
        "public_key": encode_base64(trusted.key.der),
        "valid_from": format_rfc3339(trusted.valid_from),
        "valid_until": None if until is None else format_rfc3339(until),
        "revoked_at": None if revoked_at is None else format_rfc3339(revoked_at),
    }
    return encode_entry(EntryType.KEY, members)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise MalformedError(f"expected a text in trust.json, got {value!r:.40}")
    return value
