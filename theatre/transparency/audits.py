"""An audit of a sample: whom it asks, which episodes its coin names, and what follows.

The auditor commits to a coin before it names anything, so that he cannot choose episodes once he
has seen some; the issuer cannot know the names before the audit is on record.
Source: docs/disclosure.md.
"""

import hashlib
import heapq
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from math import comb
from typing import Final

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object, sha256_hex
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.coin import Coin
from theatre.engine.errors import ClockError, ParseError
from theatre.transparency.entries import EntryType, encode_entry
from theatre.transparency.errors import AuditError

FORM: Final = "urn:echelon:audit-request:v1"
_MEMBERS: Final = {
    "form": str,
    "certificate_id": str,
    "statement_sha256": str,
    "episode_root": str,
    "episodes": int,
    "draw": int,
    "coin_sha256": str,
    "open_by": str,
}
_SHA256: Final = re.compile("[0-9a-f]{64}")
_MISSED: Final = 20
"""One in so many samples may miss it: what a bound at 95 % allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What an auditor asks: `draw` of `episodes`, opened by `open_by`.

    `statement_sha256` names the signed statement; of a certificate that no one signed, the
    SHA-256 of its canonical bytes.
    """

    certificate_id: str
    statement_sha256: str
    episode_root: str
    episodes: int
    draw: int
    coin_sha256: str
    open_by: datetime

    def __post_init__(self) -> None:
        hashes = (self.statement_sha256, self.episode_root, self.coin_sha256)
        if not all(map(_SHA256.fullmatch, hashes)):
            raise AuditError("expected hashes of 64 hex digits in a request, got others")
        if not 1 <= self.draw <= self.episodes:
            raise AuditError(f"expected to draw 1 to {self.episodes} episodes, got {self.draw}")

    @classmethod
    def of(
        cls,
        certificate: JsonObject,
        *,
        statement_sha256: str,
        draw: int,
        coin: Coin,
        open_by: datetime,
    ) -> "AuditRequest":
        """Return the request about a certificate; AuditError where it has no episodes to open."""
        root, counts = certificate.get("episode_root"), certificate.get("episode_counts")
        total = counts.get("total") if isinstance(counts, dict) else None
        named = certificate.get("certificate_id")
        if not (isinstance(root, str) and isinstance(named, str) and type(total) is int):
            raise AuditError("expected a certificate with an episode_root, got none")
        return cls(
            certificate_id=named,
            statement_sha256=statement_sha256,
            episode_root=root,
            episodes=total,
            draw=draw,
            coin_sha256=coin.sha256,
            open_by=open_by,
        )

    def __bytes__(self) -> bytes:
        """Return the file: canonical JSON and a line feed."""
        return canonical_line(
            {
                "form": FORM,
                "certificate_id": self.certificate_id,
                "statement_sha256": self.statement_sha256,
                "episode_root": self.episode_root,
                "episodes": self.episodes,
                "draw": self.draw,
                "coin_sha256": self.coin_sha256,
                "open_by": format_rfc3339(self.open_by),
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> "AuditRequest":
        """Read a file; AuditError for another form or spelling."""
        try:
            document = parse_object(data)
            if {name: type(value) for name, value in document.items()} != _MEMBERS:
                raise AuditError("expected the members of an audit's request, got others")
            if document.pop("form") != FORM:
                raise AuditError(f"expected the form {FORM}, got another")
            open_by = parse_rfc3339(str(document.pop("open_by")))
            request = cls(open_by=open_by, **document)  # type: ignore[arg-type]  # as _MEMBERS says
        except (ParseError, ClockError) as error:
            raise AuditError(f"expected an audit's request, got another file: {error}") from error
        if bytes(request) != data:
            raise AuditError("expected a request in canonical JSON, got another spelling")
        return request

    def require_about(self, certificate: JsonObject) -> None:
        """Raise AuditError unless the request is about this certificate."""
        counts = certificate.get("episode_counts")
        wanted = {
            "certificate_id": certificate.get("certificate_id"),
            "episode_root": certificate.get("episode_root"),
            "episodes": counts.get("total") if isinstance(counts, dict) else None,
        }
        for name, value in wanted.items():
            if getattr(self, name) != value:
                raise AuditError(f"expected a request about {name} {value!r:.80}, got another's")

    @property
    def sha256(self) -> str:
        """Return the hash by which logs name it."""
        return sha256_hex(bytes(self))

    def named(self, coin: Coin) -> list[int]:
        """Return the episodes that the coin names, from 1, in order.

        AuditError unless it is the coin that the request commits to.
        """
        if coin.sha256 != self.coin_sha256:
            raise AuditError("expected the coin that the request commits to, got another")
        key = hmac.digest(coin.secret, bytes.fromhex(self.episode_root), hashlib.sha256)

        def rank(seq: int) -> bytes:
            return hmac.digest(key, seq.to_bytes(8, "big"), hashlib.sha256)

        return sorted(heapq.nsmallest(self.draw, range(1, self.episodes + 1), key=rank))

    def entry(self) -> bytes:
        """Return the log's entry that an audit was asked for."""
        members: JsonObject = {
            "statement_sha256": self.statement_sha256,
            "envelope_sha256": self.sha256,
            "open_by": format_rfc3339(self.open_by),
        }
        return encode_entry(EntryType.DISPUTE, members)

    def answer_entry(self, disclosure: bytes) -> bytes:
        """Return the log's entry that the audit was answered with a file."""
        members: JsonObject = {
            "statement_sha256": self.statement_sha256,
            "envelope_sha256": sha256_hex(disclosure),
            "answers": self.sha256,
        }
        return encode_entry(EntryType.ATTESTATION, members)


def most_false(episodes: int, opened: int) -> int:
    """Return how many of `episodes` can be false, at most, at 95 %, where none of `opened` is.

    With one more of them false, fewer than one sample in twenty would have shown none: the
    upper end of the exact (hypergeometric) one-sided interval.
    """
    if not 0 <= opened <= episodes:
        raise AuditError(f"expected at most {episodes} opened episodes, got {opened}")
    samples = comb(episodes, opened)
    low, high = 0, episodes - opened
    while low < high:
        middle = (low + high + 1) // 2
        if _MISSED * comb(episodes - middle, opened) >= samples:
            low = middle
        else:
            high = middle - 1
    return low
