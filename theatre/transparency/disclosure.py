"""Episodes that are shown alone: each with its salt and its path to the certificate's root.

Pure: what is read and written stands with the commands. A disclosure shows nothing of the episodes
that it does not open. Source: docs/disclosure.md.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_line,
    parse_object,
)
from theatre.engine.errors import ParseError
from theatre.engine.merkle import leaf_hash
from theatre.transparency.errors import DisclosureError, ProofError
from theatre.transparency.merkle import (
    HASH_BYTES,
    LeafRange,
    inclusion_path,
    root_from_inclusion,
    tree_hash,
)

FORM: Final = "urn:echelon:disclosure:v1"
SALT_BYTES: Final = 32
MAX_BYTES: Final = 256 * 1024 * 1024
_MEMBERS: Final = frozenset(
    {"form", "certificate_id", "episode_root", "episodes", "template", "openings"}
)
_OPENING: Final = frozenset({"seq", "salt", "seed", "line", "proof"})


class SaltedLine(NamedTuple):
    """What the issuer has of an episode: its canonical line and its salt.

    `seed` is that of its runner, empty where its construct is called once.
    """

    line: bytes
    salt: bytes
    seed: str = ""

    @property
    def leaf(self) -> bytes:
        """Return its leaf under the root."""
        return leaf_hash(self.salt + self.line)


class Opening(NamedTuple):
    """One episode that is open; `seq` counts from 1, as everywhere in a bundle."""

    seq: int
    salt: bytes
    seed: str
    line: JsonObject
    proof: tuple[bytes, ...]

    @property
    def leaf(self) -> bytes:
        """Return its leaf under the root."""
        return leaf_hash(self.salt + canonical_bytes(self.line))


class Disclosure(NamedTuple):
    """A file that opens episodes of one certificate; the template says how they are scored."""

    certificate_id: str
    episode_root: str
    episodes: int
    template: JsonObject
    openings: tuple[Opening, ...]

    def __bytes__(self) -> bytes:
        """Return the file: canonical JSON and a line feed."""
        openings: list[JsonValue] = [
            {
                "seq": one.seq,
                "salt": one.salt.hex(),
                "seed": one.seed,
                "line": one.line,
                "proof": [each.hex() for each in one.proof],
            }
            for one in self.openings
        ]
        return canonical_line(
            {
                "form": FORM,
                "certificate_id": self.certificate_id,
                "episode_root": self.episode_root,
                "episodes": self.episodes,
                "template": self.template,
                "openings": openings,
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> "Disclosure":
        """Read a file; DisclosureError for another form or another spelling of it."""
        try:
            document = parse_object(data, max_bytes=MAX_BYTES)
            _require_members(document, _MEMBERS, "a disclosure")
            if document["form"] != FORM:
                raise DisclosureError(f"expected the form {FORM}, got {document['form']!r:.60}")
            disclosure = cls(
                certificate_id=_text(document["certificate_id"]),
                episode_root=_text(document["episode_root"]),
                episodes=_whole(document["episodes"]),
                template=_object(document["template"]),
                openings=tuple(map(_opening, _list(document["openings"]))),
            )
        except (ParseError, ValueError, TypeError) as error:
            raise DisclosureError(f"expected a disclosure, got another file: {error}") from error
        # One spelling: nothing can be added that a reader does not see.
        if bytes(disclosure) != data:
            raise DisclosureError("expected a disclosure in canonical JSON, got another spelling")
        return disclosure

    def verify(self, certificate: JsonObject) -> None:
        """Raise DisclosureError unless all of it is open under the certificate's root.

        Each episode is there once, at its place, with the salt that it was sealed with.
        """
        counts = certificate.get("episode_counts")
        total = counts.get("total") if isinstance(counts, dict) else None
        stated: JsonObject = {
            "certificate_id": self.certificate_id,
            "episode_root": self.episode_root,
            "episode_counts/total": self.episodes,
        }
        seen = {name: certificate.get(name) for name in ("certificate_id", "episode_root")}
        wanted: JsonObject = {**seen, "episode_counts/total": total}
        for name, value in wanted.items():
            if stated[name] != value or type(stated[name]) is not type(value):
                raise DisclosureError(
                    f"expected the certificate's {name} {value!r:.80}, got {stated[name]!r:.80}"
                )
        seqs = [one.seq for one in self.openings]
        # In order and once: an episode that is opened twice would count as two.
        if seqs != sorted(set(seqs)):
            raise DisclosureError("expected each episode once, in order, got another list")
        names = {_episode_id(one) for one in self.openings}
        if len(names) != len(seqs):
            raise DisclosureError("expected episodes of different ids, got one id twice")
        root = bytes.fromhex(self.episode_root)
        for one in self.openings:
            try:
                found = root_from_inclusion(one.leaf, one.seq - 1, self.episodes, one.proof)
            except ProofError as error:
                raise DisclosureError(f"episode {one.seq}: {error}") from error
            if found != root:
                raise DisclosureError(
                    f"expected episode {one.seq} under the certificate's episode_root, "
                    "got another line, salt or place"
                )


def disclose(
    certificate: JsonObject,
    template: JsonObject,
    episodes: Sequence[SaltedLine],
    seqs: Iterable[int],
) -> Disclosure:
    """Return the disclosure of the episodes `seqs`, of all that the issuer has.

    Raises DisclosureError where these are not the episodes of the certificate.
    """
    leaves = [one.leaf for one in episodes]
    root = tree_hash(leaves)
    if root.hex() != certificate.get("episode_root"):
        raise DisclosureError(
            f"expected the episodes of the certificate, under {certificate.get('episode_root')}, "
            f"got others, under {root.hex()}"
        )
    known: dict[LeafRange, bytes] = {}

    def hashed(leaf_range: LeafRange) -> bytes:
        if leaf_range not in known:
            known[leaf_range] = tree_hash(leaves[leaf_range.start : leaf_range.end])
        return known[leaf_range]

    openings = tuple(
        Opening(
            seq=seq,
            salt=episodes[seq - 1].salt,
            seed=episodes[seq - 1].seed,
            line=parse_object(episodes[seq - 1].line),
            proof=tuple(map(hashed, inclusion_path(seq - 1, len(leaves)))),
        )
        for seq in sorted({*seqs})
    )
    return Disclosure(
        certificate_id=cast("str", certificate["certificate_id"]),
        episode_root=root.hex(),
        episodes=len(leaves),
        template=template,
        openings=openings,
    )


def _episode_id(opening: Opening) -> str:
    result = opening.line.get("result")
    return str(result.get("episode_id")) if isinstance(result, dict) else ""


def _opening(value: JsonValue) -> Opening:
    document = _object(value)
    _require_members(document, _OPENING, "an opening")
    seq, salt = _whole(document["seq"]), bytes.fromhex(_text(document["salt"]))
    proof = tuple(bytes.fromhex(_text(one)) for one in _list(document["proof"]))
    if seq < 1 or len(salt) != SALT_BYTES or any(len(one) != HASH_BYTES for one in proof):
        raise DisclosureError("expected an episode from 1, a salt and hashes of 32 bytes")
    return Opening(seq, salt, _text(document["seed"]), _object(document["line"]), proof)


def _require_members(document: JsonObject, names: frozenset[str], what: str) -> None:
    if document.keys() != names:
        odd = ", ".join(sorted(document.keys() ^ names))
        raise DisclosureError(f"expected the members of {what}, got a difference: {odd:.100}")


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise DisclosureError(f"expected a text, got {value!r:.60}")
    return value


def _whole(value: JsonValue) -> int:
    if type(value) is not int:
        raise DisclosureError(f"expected a whole number, got {value!r:.60}")
    return value


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise DisclosureError(f"expected an object, got {value!r:.60}")
    return value


def _list(value: JsonValue) -> list[Any]:
    if not isinstance(value, list):
        raise DisclosureError(f"expected a list, got {value!r:.60}")
    return value
