"""A reader's policy: which logs he trusts, and how many witnesses must have seen a checkpoint.

Source: C2SP tlog-policy.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from theatre.transparency.errors import MalformedError, QuorumError
from theatre.transparency.notes import KeyKind, SignedCheckpoint, VerifierKey, parse_decimal

_NONE = "none"
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


class Witness(NamedTuple):
    """A witness that a policy names, and where it can be asked, if the policy says."""

    key: VerifierKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Counts as a witness where `least` of its members do."""

    least: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """Trusted logs with their addresses, known witnesses, groups of them, and the quorum."""

    logs: Mapping[VerifierKey, str | None]
    witnesses: Mapping[str, Witness] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    quorum: str = _NONE

    @classmethod
    def parse(cls, data: bytes) -> "Policy":
        """Read a policy file; MalformedError names the first line that is wrong."""
        if _CONTROL.search(data):
            raise MalformedError("expected a policy without control characters, got one")
        draft = _Draft()
        # Octets above ASCII mean nothing here: names are compared as they are.
        for number, line in enumerate(data.decode("latin-1").split("\n"), start=1):
            words = line.replace("\t", " ").split(" ")
            words = [word for word in words if word]
            if not words or words[0].startswith("#"):
                continue
            try:
                draft.take(words[0], words[1:])
            except MalformedError as error:
                raise MalformedError(f"line {number} of the policy: {error}") from error
        if draft.quorum is None:
            raise MalformedError("expected a line with the quorum in the policy, got none")
        return cls(draft.logs, draft.witnesses, draft.groups, draft.quorum)

    def verify_checkpoint(self, data: bytes) -> SignedCheckpoint:
        """Read a checkpoint of a trusted log; errors as its own, QuorumError as `check_quorum`."""
        known = [witness.key for witness in self.witnesses.values()]
        signed = SignedCheckpoint.verify(data, self.logs, known)
        self.check_quorum(signed.cosigned)
        return signed

    def check_quorum(self, cosigned: Collection[VerifierKey]) -> None:
        """Raise QuorumError unless the witnesses that cosigned are enough."""
        if not self._counts(self.quorum, cosigned):
            names = ", ".join(sorted(key.name for key in cosigned)) or "none"
            raise QuorumError(f"expected the witnesses of {self.quorum}, got cosignatures: {names}")

    def _counts(self, name: str, cosigned: Collection[VerifierKey]) -> bool:
        if name == _NONE:
            return True
        if name in self.witnesses:
            return self.witnesses[name].key in cosigned
        group = self.groups[name]
        return sum(self._counts(member, cosigned) for member in group.members) >= group.least


@dataclass(slots=True)
class _Draft:
    logs: dict[VerifierKey, str | None] = field(default_factory=dict)
    witnesses: dict[str, Witness] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    quorum: str | None = None
    _members: set[str] = field(default_factory=set)

    def take(self, keyword: str, words: list[str]) -> None:
        match keyword, words:
            case "log", [vkey] | [vkey, _]:
                key = self._new_key(vkey, KeyKind.LOG, self.logs)
                self.logs[key] = words[1] if words[1:] else None
            case "witness", [name, vkey] | [name, vkey, _]:
                known = {witness.key for witness in self.witnesses.values()}
                key = self._new_key(vkey, KeyKind.WITNESS, known)
                self._require_new(name)
                self.witnesses[name] = Witness(key, words[2] if words[2:] else None)
            case "group", [name, least, *members] if members:
                self._require_new(name)
                self.groups[name] = Group(_threshold(least, len(members)), tuple(members))
                for member in members:
                    self._take_member(member, name)
            case "quorum", [name] if self.quorum is None:
                if name != _NONE and name not in self.witnesses and name not in self.groups:
                    raise MalformedError(f"expected a witness or group for the quorum, got {name}")
                self.quorum = name
            case _:
                raise MalformedError(f"expected log, witness, group or one quorum, got {keyword}")

    def _new_key(self, vkey: str, kind: KeyKind, known: Collection[VerifierKey]) -> VerifierKey:
        key = VerifierKey.parse(vkey.encode("latin-1").decode("utf-8", "replace"))
        if key.kind is not kind:
            raise MalformedError(f"expected the key of a {kind.name.lower()}, got {vkey}")
        # One key under two names would count twice towards a quorum.
        if any(other.public == key.public for other in known):
            raise MalformedError(f"expected each key once, got {key.name} again")
        return key

    def _require_new(self, name: str) -> None:
        if name == _NONE or name in self.witnesses or name in self.groups:
            raise MalformedError(f"expected a new name, got {name}")

    def _take_member(self, member: str, group: str) -> None:
        is_known = member in self.witnesses or (member in self.groups and member != group)
        if not is_known or member in self._members:
            raise MalformedError(f"expected a member that is defined above, once, got {member}")
        self._members.add(member)


def _threshold(text: str, members: int) -> int:
    least = {"any": 1, "all": members}.get(text)
    if least is None:
        least = parse_decimal(text, "a threshold")
    if not 1 <= least <= members:
        raise MalformedError(f"expected a threshold of 1 to {members}, got {least}")
    return least
