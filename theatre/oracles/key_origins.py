"""Where the value of a variable may go that a template, or a file that came with it, names.

Both are a stranger's words, the variable and the address: without the user's leave any secret of
his environment could be sent anywhere (docs/contract/construct.md §3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from yarl import URL

from theatre.oracles.errors import KEY_ORIGINS, KeyNotAllowedError, OutboundPolicyError
from theatre.oracles.wire_forms import RequestHeaders

if TYPE_CHECKING:
    from theatre.oracles.construct_registry import RemoteConstruct

_WELL_KNOWN: Final = frozenset(
    {
        ("OPENAI_API_KEY", "https://api.openai.com"),
        ("ANTHROPIC_API_KEY", "https://api.anthropic.com"),
    }
)
_VARIABLE = re.compile("[A-Za-z_][0-9A-Za-z_]*")


@dataclass(frozen=True, slots=True)
class KeyOrigins:
    """Pairs of a variable and an origin, in addition to the providers' own and loopback."""

    allowed: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    @classmethod
    def parse(cls, entries: Iterable[str]) -> KeyOrigins:
        """Read entries `VARIABLE=https://host[:port]`.

        Raises OutboundPolicyError for another one; it is not repeated, for it may hold a key.
        """
        pairs = set()
        for entry in entries:
            variable, _, place = entry.partition("=")
            origin = _origin_of(place)
            if not _VARIABLE.fullmatch(variable) or origin is None or URL(place).raw_path != "/":
                raise OutboundPolicyError(
                    f"{KEY_ORIGINS}: expected VARIABLE=https://host or VARIABLE=http://host:port, "
                    "got another entry: it has names, not values, and no path"
                )
            pairs.add((variable, origin))
        return cls(frozenset(pairs))

    def require(self, variables: Iterable[str], url: str, construct_id: str) -> None:
        """Raise KeyNotAllowedError for a variable whose value may not be sent to `url`."""
        origin = _origin_of(url)
        if origin is not None and _is_loopback(origin):
            return
        for variable in variables:
            if (variable, origin) not in _WELL_KNOWN | self.allowed:
                raise KeyNotAllowedError(
                    f"expected a place that may have the value of {variable}, which the template "
                    f"names, got {origin} for {construct_id}: nothing was sent. If you trust it "
                    f"with that key, export {KEY_ORIGINS}={variable}={origin} and run again "
                    "(pairs are separated by commas)"
                )


PROVIDERS_ONLY: Final = KeyOrigins()
"""No pair of the user's."""


def headers_of(
    construct: RemoteConstruct, environment: Mapping[str, str], keys: KeyOrigins
) -> RequestHeaders:
    """Return the headers that a construct is sent.

    Raises KeyNotAllowedError for a variable that the user neither named nor allowed there, and
    RequestHeadersError as `RequestHeaders.from_environment`.
    """
    if not construct.is_own:
        keys.require(construct.headers_env.values(), construct.url, construct.construct_id)
    return RequestHeaders.from_environment(construct.headers_env, environment)


def _origin_of(place: str) -> str | None:
    """Return scheme, host and port of a URL, as it is called; None for what is none."""
    try:
        url = URL(place)
        return str(url.origin()) if url.scheme in {"http", "https"} else None
    except ValueError:
        return None


def _is_loopback(origin: str) -> bool:
    """Return whether it is this machine by its address: a name may be anybody's."""
    host = URL(origin).host or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
