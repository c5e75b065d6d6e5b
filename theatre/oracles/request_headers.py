"""The headers that an operator adds to each call, kept out of everything that is recorded.

They come from `constructs.toml` (`headers_env`) or the command line, never from a template, and
are secrets (docs/contract/construct.md §3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from theatre.oracles.errors import RequestHeadersError

REDACTED = "[redacted]"

# Shorter values say little, and would be found in any answer.
_MIN_SECRET = 8
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The escapes that can stand for a character of a value.
_JSON_ESCAPE = re.compile(rb'\\(?:u00([0-7][0-9A-Fa-f])|(["\\/t]))')
# What frames the message, what the protocol of constructs decides, and what the adapter says.
_OURS = re.compile(
    "accept|accept-encoding|connection|content-.*|expect|host|idempotency-key|keep-alive|proxy-.*"
    "|te|trailer|transfer-encoding|upgrade|user-agent",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Headers by name; the repr shows none of the values.

    Raises RequestHeadersError for a name that is no header name or belongs to the adapter, one
    that comes twice in different case, and a value that is not printable ASCII; never with the
    value in the message.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    _secrets: tuple[tuple[bytes, bytes], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check every header, and note what must be found again to be redacted."""
        for name, value in self.values.items():
            _check(name, value)
        names = [name.lower() for name in self.values]
        if len(set(names)) != len(names):
            raise RequestHeadersError(f"expected each header once, got {', '.join(sorted(names))}")
        secrets = {secret for value in self.values.values() for secret in _secrets_of(value)}
        longest_first = sorted(secrets, key=lambda secret: (-len(secret), secret))
        replaced = tuple((secret.encode("ascii"), REDACTED.encode()) for secret in longest_first)
        object.__setattr__(self, "_secrets", replaced)

    @classmethod
    def from_environment(
        cls, variables: Mapping[str, str], environment: Mapping[str, str]
    ) -> RequestHeaders:
        """Return the headers whose values stand in environment variables (name → variable).

        Raises RequestHeadersError for a variable that is not set or cannot be one, and as the
        constructor.
        """
        for name, variable in variables.items():
            if not _VARIABLE.fullmatch(variable):
                # Not echoed: it may be the value itself.
                raise RequestHeadersError(
                    f"expected the name of an environment variable for header {name}, "
                    "got something else: put the value into a variable and name that"
                )
            if variable not in environment:
                raise RequestHeadersError(
                    f"expected the value of header {name} in the environment variable {variable}, "
                    "got none: set it"
                )
        return cls({name: environment[variable] for name, variable in variables.items()})

    def redacted(self, data: bytes) -> bytes:
        """Return `data` without the values of 8 characters or more, as they are sent or in JSON.

        Of a value with a scheme (`Bearer …`) the credentials alone are found as well. Where a
        value is spelt with escapes of JSON, what comes back is `data` with those resolved.
        """
        if not self._secrets:
            return data
        plain = self._without_secrets(data)
        resolved = _JSON_ESCAPE.sub(_resolve, plain)
        redacted = self._without_secrets(resolved)
        return plain if redacted == resolved else redacted

    def _without_secrets(self, data: bytes) -> bytes:
        for secret, replacement in self._secrets:
            data = data.replace(secret, replacement)
        return data


def _check(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise RequestHeadersError(f"expected the name of a header, got {name!r:.100}")
    if _OURS.fullmatch(name):
        raise RequestHeadersError(f"expected a header that calls leave free, got {name}")
    if not _VALUE.fullmatch(value):
        raise RequestHeadersError(
            f"expected the value of header {name} as printable ASCII without spaces around it"
        )


def _secrets_of(value: str) -> set[str]:
    credentials = value.rpartition(" ")[2]
    secrets = {text for text in (value, credentials) if len(text) >= _MIN_SECRET}
    return secrets | {json.dumps(text)[1:-1] for text in secrets}


def _resolve(escape: re.Match[bytes]) -> bytes:
    code, character = escape.groups()
    if code is not None:
        return bytes.fromhex(code.decode("ascii"))
    return b"\t" if character == b"t" else character
