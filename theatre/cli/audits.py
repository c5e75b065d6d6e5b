"""What is opened of a bundle, and what a reader makes of it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, cast

from theatre.api.named_files import read_file
from theatre.cli.exits import ExitCode
from theatre.engine.bundle_check.bundle_reader import Evidence
from theatre.engine.bundle_check.evidence import Installed
from theatre.engine.bundle_check.folder import AGGREGATE, PER_EPISODE
from theatre.engine.bundle_check.opened import OpenedEpisodes, OpenedResult
from theatre.engine.bundle_check.plain_json import DefectError as UnreadableError
from theatre.engine.bundle_check.report import DefectError
from theatre.engine.bundle_check.scorers import ResultsHash
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    parse_object,
    sha256_hex,
)
from theatre.engine.episode_root import withheld_episodes
from theatre.engine.errors import NotFoundError
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import product_template
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_computations, load_episode_runners, load_scorers
from theatre.transparency.audits import most_false
from theatre.transparency.bundle_proofs import STATEMENT
from theatre.transparency.disclosure import Disclosure, SaltedLine
from theatre.transparency.errors import DisclosureError, MalformedError
from theatre.transparency.notes import decode_base64

NOT_RECOMPUTED: Final = (
    "that questions and labels are of the committed dataset: its hash is over the whole file",
    "ids of calls, and seeds of interactive episodes: only the coin draws them",
    "who signed the certificate, and its means over all episodes: `echelon check` does",
)
"""What opened episodes alone cannot show."""


class OpenedBundle(NamedTuple):
    """What an issuer's bundle says of its episodes; `ids` in the order of the dataset."""

    certificate: JsonObject
    template: JsonObject
    ids: Sequence[str]

    def seqs(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of episodes, by id or by number; NotFoundError for any other."""
        places = {name: seq for seq, name in enumerate(self.ids, 1)}
        found = set()
        for name in names:
            plain = name.strip()
            number = int(plain) if plain.isascii() and plain.isdigit() else 0
            seq = places.get(plain, number)
            if not 1 <= seq <= len(self.ids):
                raise NotFoundError(f"expected an episode of the bundle, got {plain[:100]!r}")
            found.add(seq)
        return sorted(found)

    def withheld(self) -> set[int]:
        """Return the numbers of the episodes that the template commits to withhold."""
        config = product_template(self.template).product_theatre_config
        chosen = withheld_episodes(config, str(self.certificate["commitment_hash"]), self.ids)
        return {seq for seq, name in enumerate(self.ids, 1) if name in chosen}


def salted_lines(bundle: Path) -> tuple[OpenedBundle, list[SaltedLine]]:
    """Read the bundle that its issuer has; DisclosureError where it cannot be read."""
    evidence = Evidence(bundle, datetime.now(UTC))
    try:
        ids = [cast("str", one["episode_id"]) for one in evidence.dataset]
        is_played = not evidence.committed.single_call
        lines = [
            SaltedLine(line, salt, evidence.draws.draw("play", name).hex() if is_played else "")
            for name, (salt, line) in zip(ids, evidence.episode_lines, strict=True)
        ]
        opened = OpenedBundle(evidence.certificate, evidence.template, ids)
    except (UnreadableError, KeyError, TypeError, ValueError, IndexError) as error:
        raise DisclosureError(f"expected a whole bundle, got another: {error}") from error
    return opened, lines


def read_certificate(path: Path) -> tuple[JsonObject, str]:
    """Return a certificate and the SHA-256 of its statement; of its own bytes where none is there.

    `path` is a certificate, a signed one, or a bundle. Signatures are not verified here.
    """
    bare = path / "certificate.json" if path.is_dir() else path
    document = parse_object(read_file(bare, what="a certificate"))
    if "dsseEnvelope" in document:
        return _stated(document)
    signed = bare.parent / "proofs" / STATEMENT
    if signed.exists():
        stated, digest = _stated(parse_object(signed.read_bytes()))
        if stated != document:
            raise MalformedError("expected the statement of the same certificate, got another's")
        return document, digest
    return document, sha256_hex(canonical_bytes(document))


def _stated(bundle: JsonObject) -> tuple[JsonObject, str]:
    try:
        envelope = cast("dict[str, str]", bundle["dsseEnvelope"])
        payload = decode_base64(envelope["payload"])
        predicate = cast("JsonObject", parse_object(payload)["predicate"])
        certificate = cast("JsonObject", predicate["certificate"])
    except (KeyError, TypeError) as error:
        raise MalformedError("expected a signed certificate, got another document") from error
    return certificate, sha256_hex(payload)


class CheckedDisclosure(NamedTuple):
    """What opened episodes come to; `named` are those that an auditor's coin names, if any."""

    certificate_id: str
    episodes: int
    results: Sequence[OpenedResult]
    invalid: str | None = None
    """Why nothing of the file counts."""
    named: Sequence[int] | None = None
    overdue: bool = False

    @property
    def false(self) -> list[OpenedResult]:
        """Return the episodes that are not what they state."""
        return [one for one in self.results if one.false is not None]

    @property
    def unavailable(self) -> list[OpenedResult]:
        """Return the episodes that could not be computed again."""
        return [one for one in self.results if one.unavailable is not None]

    @property
    def missing(self) -> list[int]:
        """Return the named episodes that are not open."""
        opened = {one.seq for one in self.results}
        return [seq for seq in self.named or () if seq not in opened]

    @property
    def at_most(self) -> int | None:
        """Return how many episodes can be false at 95 %; None where no sample says so.

        Only what the coin names counts: what the issuer chose to show shows nothing of the rest.
        """
        clean = self.invalid is None and not (self.false or self.unavailable or self.missing)
        return most_false(self.episodes, len(self.named)) if clean and self.named else None

    @property
    def exit_code(self) -> ExitCode:
        """Return how the command ends."""
        if self.invalid is not None or self.false or (self.missing and self.overdue):
            return ExitCode.CHECK_FAILED
        return ExitCode.INCOMPLETE if self.missing or self.unavailable else ExitCode.OK

    def as_document(self) -> JsonObject:
        """Return the form that tools read."""
        audit: JsonValue = None
        if self.named is not None:
            audit = {
                "named": [*self.named],
                "missing": [*self.missing],
                "overdue": self.overdue,
                "at_most_false": self.at_most,
                "level": 0.95,
            }
        return {
            "certificate_id": self.certificate_id,
            "episodes": self.episodes,
            "opened": [one.seq for one in self.results],
            "withheld": self.episodes - len(self.results),
            "invalid": self.invalid,
            "false": [_problem(one, one.false) for one in self.false],
            "unavailable": [_problem(one, one.unavailable) for one in self.unavailable],
            "audit": audit,
            "not_recomputed": [*NOT_RECOMPUTED],
        }

    def lines(self) -> list[str]:
        """Return what a person reads."""
        opened = len(self.results)
        found = [f"certificate  {self.certificate_id}"]
        if self.invalid is not None:
            return [*found, f"NOT VALID    {self.invalid}"]
        recomputed = sum(one.recomputed for one in self.results)
        found.append(f"opened       {opened} of {self.episodes} episodes; the others are withheld")
        found.append(f"recomputed   {recomputed}")
        found += [f"FALSE        episode {one.seq}: {one.false}" for one in self.false]
        found += [f"UNAVAILABLE  episode {one.seq}: {one.unavailable}" for one in self.unavailable]
        found += [f"not checked  {text}" for text in NOT_RECOMPUTED]
        if self.named is None:
            return [*found, "bound        none: the issuer chose what to open"]
        if self.missing:
            listed = ", ".join(map(str, self.missing))
            found.append(f"{'OVERDUE' if self.overdue else 'not open':11}  {listed}")
        if self.at_most is None:
            return [*found, "bound        none"]
        share = f"{100 * self.at_most / self.episodes:.1f} %"
        text = f"at most {self.at_most} of {self.episodes} episodes are false ({share}), at 95 %"
        return [*found, f"bound        {text}"]


def _problem(one: OpenedResult, text: str | None) -> JsonObject:
    return {"seq": one.seq, "episode_id": one.episode_id, "problem": text}


def check_published_lines(bundle: Path, certificate: JsonObject, disclosure: Disclosure) -> None:
    """Hold what is open to the scores of a bundle, whole or published.

    DisclosureError unless these are the scores of the certificate, and of the open lines.
    """
    raw = read_file(bundle / PER_EPISODE, what="scores")
    hasher = ResultsHash()
    hasher.add(raw)
    aggregate = parse_object(read_file(bundle / AGGREGATE, what="an aggregate"))
    if hasher.of(aggregate) != certificate.get("results_hash"):
        raise DisclosureError(
            "expected the scores under the certificate's results_hash, got others"
        )
    lines = raw.splitlines()
    for one in disclosure.openings:
        if one.seq > len(lines) or lines[one.seq - 1] != canonical_bytes(one.line.get("result")):
            raise DisclosureError(f"expected the published scores of episode {one.seq}, got others")


def check_disclosure(
    certificate: JsonObject,
    disclosure: Disclosure,
    *,
    bundle: Path | None = None,
    named: Sequence[int] | None = None,
    overdue: bool = False,
) -> CheckedDisclosure:
    """Hold what is open to the certificate, and compute it again with what is installed.

    `bundle` is the published one, where the reader has it: what is open must be its scores.
    """
    counts = certificate.get("episode_counts")
    total = counts.get("total") if isinstance(counts, dict) else None
    results: list[OpenedResult] = []
    invalid = None
    try:
        disclosure.verify(certificate)
        if bundle is not None:
            check_published_lines(bundle, certificate, disclosure)
        results = _recompute(certificate, disclosure)
    except DisclosureError as error:
        invalid = str(error)
    except DefectError as error:
        invalid = f"template: {error}"
    return CheckedDisclosure(
        certificate_id=str(certificate.get("certificate_id")),
        episodes=total if isinstance(total, int) else 0,
        results=results,
        invalid=invalid,
        named=named,
        overdue=overdue,
    )


def _recompute(certificate: JsonObject, disclosure: Disclosure) -> list[OpenedResult]:
    installed = Installed(
        scorers=load_scorers(),
        computations=load_computations(),
        runners=load_episode_runners(),
        sanitiser=TextSanitiser(),
        registry=SchemaRegistry(),
    )
    opened = OpenedEpisodes(
        disclosure.template,
        installed,
        theatre_id=str(certificate.get("theatre_id")),
        total=disclosure.episodes,
    )
    # Another template could score the same answers higher.
    if opened.commitment_hash != certificate.get("commitment_hash"):
        raise DisclosureError("expected the template that was committed, got another")
    return [opened.check(one.line, seq=one.seq, seed=one.seed) for one in disclosure.openings]
