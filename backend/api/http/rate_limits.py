"""Rate limits, counted in this process (docs/design/service.md, "Rate limits").

By GCRA, the generic cell rate algorithm (ITU-T I.371): one number a client. A burst of a whole
minute's requests is allowed; after that they must come at the average rate.
"""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import StrEnum
from ipaddress import IPv6Address, IPv6Network

from backend.api.http.forwarded import parse_address
from backend.errors import RateLimitedError
from backend.settings import Settings

_MINUTE = 60.0
_ROUNDING_SECONDS = 1e-4
"""More than the error of a minute's sum of intervals, less than the shortest of them."""

_REMEMBERED = 100_000
"""Beyond that the oldest client is dropped and starts anew: memory stays bounded."""

_MAX_STREAMS = 5
_IPV6_NETWORK = 64


class Rate(StrEnum):
    """The class of a request, counted by address, since no credential is needed to send it."""

    READ = "requests"
    LOGIN = "log-ins and registrations"
    """Each hashes a password."""
    PAGE = "pages"
    """Each is made for people, at many times the cost of a document."""
    UNLIMITED = "nothing"
    """Health checks: a flood of other requests must not make a supervisor restart the service."""


class RateLimiter:
    """Admits each client so many times a minute."""

    def __init__(
        self, per_minute: int, *, of: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._of = of
        self._monotonic = monotonic
        self._interval = _MINUTE / per_minute
        self._free_from: OrderedDict[str, float] = OrderedDict()

    def admit(self, who: str) -> None:
        """Count one more of `who`; RateLimitedError, uncounted, where it is one too many."""
        now = self._monotonic()
        free_from = max(self._free_from.get(who, now), now)
        early = free_from + self._interval - now - _MINUTE
        if early > _ROUNDING_SECONDS:
            raise RateLimitedError(
                f"expected at most {self._per_minute} {self._of} a minute, got more",
                retry_after=max(1, math.ceil(early)),
            )
        self._free_from[who] = free_from + self._interval
        self._free_from.move_to_end(who)
        if len(self._free_from) > _REMEMBERED:
            self._free_from.popitem(last=False)


class RateLimits:
    """What this process counts: requests and log-ins by address, writes and streams by user."""

    def __init__(self, settings: Settings) -> None:
        self._by_address = {
            Rate.READ: RateLimiter(settings.requests_per_minute, of=Rate.READ.value),
            Rate.LOGIN: RateLimiter(settings.logins_per_minute, of=Rate.LOGIN.value),
            Rate.PAGE: RateLimiter(settings.pages_per_minute, of=Rate.PAGE.value),
        }
        self._log_ins = RateLimiter(settings.account_logins_per_minute, of="log-ins of one name")
        self._writes = RateLimiter(settings.writes_per_minute, of="writes")
        self._streams: Counter[str] = Counter()

    def admit_address(self, rate: Rate, host: str) -> None:
        """Count a request of an address; RateLimitedError where it is one too many."""
        if rate is not Rate.UNLIMITED:
            self._by_address[rate].admit(_network(host))

    def admit_log_in(self, username: str) -> None:
        """Count a try of a user's password; RateLimitedError where it is one too many.

        Whether there is such a user is not asked: the answer must not say it.
        """
        self._log_ins.admit(username.lower())

    def admit_write(self, user_id: str) -> None:
        """Count a write of a user; RateLimitedError where it is one too many."""
        self._writes.admit(user_id)

    def open_stream(self, user_id: str) -> None:
        """Count a stream of a user until `close_stream`; RateLimitedError for one too many."""
        if self._streams[user_id] >= _MAX_STREAMS:
            raise RateLimitedError(
                f"expected at most {_MAX_STREAMS} streams at once, got more", retry_after=1
            )
        self._streams[user_id] += 1

    def close_stream(self, user_id: str) -> None:
        """Take a stream that was opened out of the count."""
        self._streams[user_id] -= 1
        if not self._streams[user_id]:
            del self._streams[user_id]


def _network(host: str) -> str:
    """Return whose address it is: of IPv6 one customer has a whole /64."""
    address = parse_address(host)
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, _IPV6_NETWORK), strict=False))
    return host if address is None else str(address)
