"""What a log holds: canonical JSON of at most 1 KiB an entry, and hashes only.

Source: docs/contract/trust.md §4.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.errors import ParseError
from theatre.transparency.errors import EntryError

MAX_ENTRY_BYTES: Final = 1024


class EntryType(StrEnum):
    """The types of entries; the values are part of the log's format."""

    COMMITMENT = "commitment/v1"
    CERTIFICATE = "certificate/v1"
    VOID = "void/v1"
    REVOCATION = "revocation/v1"
    KEY = "key/v1"
    DISPUTE = "dispute/v1"
    ATTESTATION = "attestation/v1"
    TELEMETRY = "telemetry/v1"


class VoidReason(StrEnum):
    """Why a commitment was closed without a certificate."""

    NOTHING_SCORED = "nothing-scored"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    """The day by which it had to be closed has passed."""
    REPRODUCTION = "reproduction"
    """A run that was made again: it can have no certificate."""


_MEMBERS: Final[Mapping[EntryType, Mapping[str, tuple[type, ...]]]] = {
    EntryType.COMMITMENT: {
        "theatre_id": (str,),
        "construct_id": (str,),
        "construct_version": (str,),
        "template_id": (str,),
        "commitment_hash": (str,),
        "coin_sha256": (str,),
        "close_by": (str,),
        "salted": (bool,),
    },
    EntryType.CERTIFICATE: {
        "theatre_id": (str,),
        "commitment_index": (int,),
        "statement_sha256": (str,),
        "tier": (str,),
        "expires_at": (str, type(None)),
    },
    EntryType.VOID: {"theatre_id": (str,), "commitment_index": (int,), "reason": (str,)},
    EntryType.REVOCATION: {"statement_sha256": (str,), "reason": (str,), "at": (str,)},
    EntryType.KEY: {
        "role": (str,),
        "kid": (str,),
        "public_key": (str,),
        "valid_from": (str,),
        "valid_until": (str, type(None)),
        "revoked_at": (str, type(None)),
    },
    EntryType.DISPUTE: {"statement_sha256": (str,), "envelope_sha256": (str,), "open_by": (str,)},
    EntryType.ATTESTATION: {
        "statement_sha256": (str,),
        "envelope_sha256": (str,),
        "answers": (str,),
    },
    EntryType.TELEMETRY: {"construct_id": (str,), "envelope_sha256": (str,)},
}
_OPTIONAL: Final = frozenset({"salted", "open_by", "answers"})
"""`open_by` makes a dispute an audit's request, `answers` an attestation the answer to one."""


def encode_entry(kind: EntryType, members: JsonObject) -> bytes:
    """Return an entry's bytes; EntryError where a member is missing, unknown, of another type."""
    entry: JsonObject = {"type": kind.value, **members}
    _check_members(kind, members)
    data = canonical_bytes(entry)
    if len(data) > MAX_ENTRY_BYTES:
        raise EntryError(f"expected an entry of at most {MAX_ENTRY_BYTES} bytes, got {len(data)}")
    return data


def decode_entry(data: bytes) -> tuple[EntryType, JsonObject]:
    """Return type and members of an entry; EntryError unless `encode_entry` gives these bytes."""
    try:
        members = parse_object(data, max_bytes=MAX_ENTRY_BYTES)
    except ParseError as error:
        raise EntryError(f"expected an entry in canonical JSON: {error}") from error
    kind = members.pop("type", None)
    if kind not in set(EntryType):
        raise EntryError(f"expected an entry of a known type, got {kind!r:.60}")
    known = EntryType(kind)
    if encode_entry(known, members) != data:
        raise EntryError("expected an entry in canonical JSON, got another spelling of it")
    return known, members


def _check_members(kind: EntryType, members: JsonObject) -> None:
    wanted = _MEMBERS[kind]
    missing = wanted.keys() - members.keys() - _OPTIONAL
    unknown = members.keys() - wanted.keys()
    if missing or unknown:
        raise EntryError(
            f"expected the members {', '.join(sorted(wanted))} in {kind}, "
            f"got {', '.join(sorted(members)) or 'none'}"
        )
    for name, value in members.items():
        # A bool is an int to Python, and would pass as an index.
        if type(value) not in wanted[name]:
            raise EntryError(f"expected {name} of another type in {kind}, got {value!r:.60}")
