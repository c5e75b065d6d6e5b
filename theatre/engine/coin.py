"""The coin: 32 random bytes of a theatre, hidden until its bundle is sealed, and what they draw.

Whatever a construct could use, if it knew it before it is asked, is drawn here: not from the
commitment alone, which is public before the first call (docs/contract/earned.md §4).
"""

import hashlib
import heapq
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from theatre.engine.canonical_json import JsonValue, canonical_bytes
from theatre.engine.errors import CoinError

COIN_BYTES: Final = 32
NO_NONCE: Final = b""
"""The nonce of a run whose commitment no log has."""
_ALIAS_DIGITS = 32
_LINE = re.compile(rb"[0-9a-f]{64}\n")


class Purpose(StrEnum):
    """What is drawn; the values are part of the evidence's format."""

    ALIAS = "alias"
    """The id under which a construct is sent an episode."""
    INVOCATION = "invocation"
    """The id of a call."""
    ITEM = "item"
    """The rank of an episode among those that people are asked to rate."""
    JUDGE = "judge"
    """The seed of the order in which a judge is shown claims and options."""
    PLAY = "play"
    """The seed of an episode's runner, from which its secrets, probes, offers and faults follow."""
    REPEAT = "repeat"
    """The rank of an episode among those that are called a second time, and with a number behind
    the episode the rank of that repeat among the questions of its block."""
    SALT = "salt"
    """What an episode's leaf under `episode_root` is salted with."""


@dataclass(frozen=True, slots=True)
class Coin:
    """The 32 bytes; CoinError for any other number of them. Its repr does not show them."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != COIN_BYTES:
            raise CoinError(f"expected a coin of {COIN_BYTES} bytes, got {len(self.secret)}")

    @classmethod
    def from_line(cls, line: bytes) -> "Coin":
        """Read `coin.txt`; CoinError unless it is 64 lower-case hex digits and a line feed."""
        if not _LINE.fullmatch(line):
            raise CoinError("expected a coin of 64 hex digits and a line feed, got something else")
        return cls(bytes.fromhex(line.decode("ascii")))

    @property
    def line(self) -> bytes:
        """Return the bytes of `coin.txt`."""
        return f"{self.secret.hex()}\n".encode("ascii")

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the raw bytes, which receipt and certificate name."""
        return hashlib.sha256(self.secret).hexdigest()

    def draw(
        self, purpose: Purpose, commitment_hash: str, *parts: JsonValue, run_nonce: bytes = NO_NONCE
    ) -> bytes:
        """Return 32 bytes: the HMAC-SHA-256 of purpose, commitment and `parts` as canonical JSON.

        Its key is the HMAC-SHA-256 of the run's nonce under the coin.
        """
        # Not `hmac.digest`: it lets go of the interpreter each time, and another program's
        # threads, a harness's, would be waited for at every draw.
        keyed = _keyed(self.secret, run_nonce).copy()
        keyed.update(canonical_bytes([purpose.value, commitment_hash, *parts]))
        return keyed.digest()


@lru_cache(maxsize=8)
def _keyed(secret: bytes, run_nonce: bytes) -> hmac.HMAC:
    """Return what the draws of one run begin with; to be copied, not updated."""
    return hmac.new(hmac.digest(secret, run_nonce, hashlib.sha256), digestmod=hashlib.sha256)


class Draws(NamedTuple):
    """The draws of one run, by what they are used for.

    `run_nonce` is of the log that had the commitment, so no owner of a coin can draw before that.
    """

    coin: Coin
    commitment_hash: str
    run_nonce: bytes = NO_NONCE

    def _draw(self, purpose: Purpose, *parts: JsonValue) -> bytes:
        return self.coin.draw(purpose, self.commitment_hash, *parts, run_nonce=self.run_nonce)

    def alias(self, episode_id: str) -> str:
        """Return the id under which a construct is sent the episode `episode_id` of the dataset."""
        drawn = self._draw(Purpose.ALIAS, episode_id)
        return f"ep_{drawn.hex()[:_ALIAS_DIGITS]}"

    def invocation_id(
        self, theatre_id: str, *, seq: int, hop: int = 0, repeat: int = 0, turn: int = 0
    ) -> str:
        """Return the id of a call, a UUID of version 8: the same for every attempt of it."""
        place: tuple[JsonValue, ...] = (theatre_id, seq, hop, repeat, turn)
        drawn = self._draw(Purpose.INVOCATION, *place)
        return _uuid8(drawn[:16])

    def play_seed(self, episode_id: str) -> str:
        """Return the seed of an interactive episode; no request holds it."""
        return self._draw(Purpose.PLAY, episode_id).hex()

    def judge_seed(self, episode_id: str, repeat: int | None = None) -> str:
        """Return what the order follows from in which a judge is shown claims and options.

        `repeat`, from 0, is of which answer, where the episode is asked more than once.
        """
        answer = () if repeat is None else (repeat,)
        return self._draw(Purpose.JUDGE, episode_id, *answer).hex()

    def item_rank(self, episode_id: str) -> bytes:
        """Return where an episode stands among those that people may be asked to rate."""
        return self._draw(Purpose.ITEM, episode_id)

    def salt(self, episode_id: str) -> bytes:
        """Return the 32 bytes that an episode's line is salted with under `episode_root`."""
        return self._draw(Purpose.SALT, episode_id)

    def repeat_rank(self, episode_id: str, repeat: int) -> bytes:
        """Return where one of an episode's repeats, from 0, stands among those of its block."""
        return self._draw(Purpose.REPEAT, episode_id, repeat)

    def repeated(self, episode_ids: Iterable[str], size: int) -> frozenset[str]:
        """Return the `size` ids with the smallest draws: they are called a second time.

        Memory grows with `size` only.
        """

        def rank(episode_id: str) -> bytes:
            return self._draw(Purpose.REPEAT, episode_id)

        return frozenset(heapq.nsmallest(size, episode_ids, key=rank)) if size else frozenset()


def _uuid8(drawn: bytes) -> str:
    """Return 16 bytes as a UUID of RFC 9562, 5.8: six bits of them say version and variant."""
    marked = bytearray(drawn)
    marked[6] = drawn[6] & 0x0F | 0x80
    marked[8] = drawn[8] & 0x3F | 0x80
    digits = marked.hex()
    # Not by `uuid`: that takes as long as the draw.
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
