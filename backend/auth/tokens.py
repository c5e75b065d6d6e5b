"""Access tokens: JSON Web Tokens (RFC 7519, RFC 9068) with one algorithm and no option."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from backend.auth.signing_keys import ALGORITHM, KeyFile, KeySet
from backend.errors import UnauthenticatedError
from theatre.engine.clock import Clock

AUDIENCE = "echelon-theatre"
LIFETIME = timedelta(hours=1)
TYPE = "at+jwt"
"""Of the header: RFC 9068 §2.1. The claim of the same name says `access`."""

_USE = "access"
_REQUIRED = ("aud", "iss", "exp", "iat", "sub", "typ", "gen")
_LEEWAY_SECONDS = 30
_MAX_CHARACTERS = 8192
_REMEMBERED = 10_000


class TokenSubject(NamedTuple):
    """Whose a token is. It is good while the user's `token_generation` is still this one."""

    user_id: str
    generation: int


class _Verified(NamedTuple):
    keys: KeySet
    subject: TokenSubject
    expires: float


class Tokens:
    """Signs and verifies tokens. One instance a process: it caches what it verified."""

    def __init__(self, keys: KeyFile, *, issuer: str, clock: Clock) -> None:
        self._keys = keys
        self._issuer = issuer
        self._clock = clock
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    def issue(self, user_id: str, *, generation: int) -> str:
        """Return a token for a user, valid for `LIFETIME` and within this generation."""
        keys = self._keys.current()
        now = self._clock()
        claims = {
            "aud": AUDIENCE,
            "iss": self._issuer,
            "sub": user_id,
            "typ": _USE,
            "gen": generation,
            "iat": _seconds(now),
            "exp": _seconds(now + LIFETIME),
        }
        headers = {"typ": TYPE, "kid": keys.signing_id}
        key = keys.signing.key
        if not isinstance(key, EllipticCurvePrivateKey):
            raise TypeError("expected a private key to sign with")
        return jwt.encode(claims, key, algorithm=ALGORITHM, headers=headers)

    def subject_of(self, token: str) -> TokenSubject:
        """Return whose a valid token of this service is; UnauthenticatedError for any other."""
        # Before hashing and parsing: an oversized header must cost nothing.
        if len(token) > _MAX_CHARACTERS:
            raise UnauthenticatedError("expected a token, got more characters than one has")
        keys = self._keys.current()
        # The cache is by digest: the process keeps no tokens in memory.
        digest = hashlib.sha256(token.encode()).digest()
        known = self._verified.get(digest)
        # The key file may change while a token is cached.
        if known is None or known.keys is not keys:
            known = self._verify(token, keys)
            self._verified[digest] = known
            if len(self._verified) > _REMEMBERED:
                self._verified.popitem(last=False)
        # Checked at every use, also for a cached token.
        if known.expires + _LEEWAY_SECONDS <= self._clock().timestamp():
            raise UnauthenticatedError("expected a token that is good now, got an expired one")
        return known.subject

    def _verify(self, token: str, keys: KeySet) -> _Verified:
        try:
            # Type and algorithm are fixed here: a token must not choose how it is verified.
            header = jwt.get_unverified_header(token)
            if header.get("typ") != TYPE or header.get("alg") != ALGORITHM:
                raise UnauthenticatedError(f"expected a token of type {TYPE} and {ALGORITHM}")
            key = keys.by_id.get(header.get("kid", ""))
            if key is None:
                raise UnauthenticatedError("expected a token of a key that is in use")
            # Times are compared below, with the clock of the service.
            claims = jwt.decode(
                token,
                _public(key.key),
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                issuer=self._issuer,
                options={"require": list(_REQUIRED), "verify_exp": False, "verify_iat": False},
            )
        except jwt.PyJWTError as error:
            raise UnauthenticatedError(f"expected a token of ours: {error}") from None
        return _Verified(keys, _subject(claims), self._expiry(claims))

    def _expiry(self, claims: Mapping[str, Any]) -> float:
        issued, expires = claims["iat"], claims["exp"]
        if type(issued) is not int or type(expires) is not int:
            raise UnauthenticatedError("expected times in whole seconds")
        if issued - _LEEWAY_SECONDS > self._clock().timestamp():
            raise UnauthenticatedError("expected a token that was issued by now")
        return float(expires)


def _public(key: object) -> Any:  # noqa: ANN401 - whichever key the library has
    return key.public_key() if isinstance(key, EllipticCurvePrivateKey) else key


def _subject(claims: Mapping[str, Any]) -> TokenSubject:
    if claims["typ"] != _USE:
        raise UnauthenticatedError("expected an access token, got one for another use")
    if type(claims["gen"]) is not int:
        raise UnauthenticatedError("expected a generation in the token")
    try:
        return TokenSubject(str(UUID(claims["sub"])), claims["gen"])
    except (ValueError, AttributeError, TypeError):
        raise UnauthenticatedError("expected a user in the token") from None


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
