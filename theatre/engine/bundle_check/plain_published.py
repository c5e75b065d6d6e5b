"""The checks of a published bundle, in which a part of the episodes are salted hashes alone.

Written from docs/disclosure.md and docs/contract/evidence.md §4, with the standard library alone.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from theatre.engine.bundle_check.arithmetic import (
    NANO,
    REQUIRED,
    UNSUMMED,
    exact,
    problems_of_history,
    published,
    tier,
)
from theatre.engine.bundle_check.bundle_reader import Evidence
from theatre.engine.bundle_check.measures import FINDINGS_OF_MEASURES
from theatre.engine.bundle_check.plain_json import DefectError, canonical
from theatre.engine.bundle_check.plain_records import (
    SHA256,
    Problems,
    differs,
    merkle_root,
    salted_leaf,
    sha256,
)

EPISODES: Final = "episodes.jsonl"
"""What a published bundle has, and a whole one has not."""
WITHHELD: Final = {
    "coin": "coin.txt is withheld: it draws the salts of what is not open",
    "datasets": "the committed hashes are over whole files, of which a part is open",
    "audit-episodes": "the digests of batches are over all records",
    "times": "calls and answers are in records, of which a part is open",
    "invocations": "records of open episodes are taken as they are: echelon check computes them",
    "version-pins": "as invocations",
    "outcomes": "as invocations",
    "human-scores": "ratings are about episodes of which not all are open",
    "data-audit": "as the issuer has it: it counts all questions",
    "baselines": "as the issuer has them: they are scored on all questions",
    "resolution": "as the issuer has it: its steps rest on all episodes",
}
"""Checks that are not made of a published bundle, and why."""


class PublishedEvidence(Evidence):
    """What others have of a bundle whose template withholds episodes."""

    @cached_property
    def episodes(self) -> list[Any]:
        """The lines of `episodes.jsonl`: open, or a leaf."""
        return self.values(EPISODES)

    @cached_property
    def lines_of_scores(self) -> list[Any]:
        """The lines of all episodes."""
        return self.values("scores/per_episode.jsonl")

    @property
    def closed(self) -> set[str]:
        """The ids of the episodes that are a leaf."""
        pairs = zip(self.lines_of_scores, self.episodes, strict=True)
        return {line["episode_id"] for line, episode in pairs if "leaf" in episode}

    @property
    def outside(self) -> str:
        """Why no word above `consistent` is for it."""
        closed, total = len(self.closed), len(self.episodes)
        return f"{closed} of {total} episodes are withheld: only their issuer has computed them"

    @property
    def episode_root(self) -> str:
        """The root over all leaves, those of open episodes from their lines."""
        leaves = []
        for episode in self.episodes:
            named = episode.get("leaf", episode.get("salt"))
            if not isinstance(named, str) or not SHA256.fullmatch(named):
                raise DefectError(f"{EPISODES}: expected salts and leaves of 64 hex digits")
            one = bytes.fromhex(named)
            leaves.append(
                one if "leaf" in episode else salted_leaf(one, canonical(episode["line"]))
            )
        return merkle_root(leaves)

    @property
    def coin_sha256(self) -> str:
        """The hash of the coin that stays with the issuer, as the receipt has it."""
        return str(self.receipt["coin_sha256"])

    @property
    def differences(self) -> int:
        """How many episodes were answered otherwise a second time, as the facts have it."""
        return int(self.document("tier.json")["facts"]["determinism_differences"])

    @property
    def usage(self) -> dict[str, Any] | None:
        """What the calls took, as the certificate has it."""
        stated: dict[str, Any] | None = self.certificate["usage"]
        return stated

    @property
    def measures(self) -> dict[str, Any]:
        """What the measures are worth, as the certificate has it: what shows it is withheld."""
        return {name: self.certificate[name] for name in ("qualification", "corrected_scores")}

    @property
    def measure_findings(self) -> list[str]:
        """The findings on what the measures are worth, as the certificate has them."""
        stated = self.certificate["findings"]
        return [one for one in stated if one.startswith(FINDINGS_OF_MEASURES)]

    @property
    def version_source(self) -> str:
        """Who says what version it was, as the certificate has it."""
        return str(self.certificate["version_source"])


def is_absent(path: str) -> bool:
    """Return whether a file of the whole bundle is not in a published one."""
    return path == "coin.txt" or path.startswith(("ground_truth/", "invocations/"))


def published_inventory(evidence: PublishedEvidence) -> Problems:
    """Check that there is all but what is withheld, as listed, and nothing else."""
    wanted = {path for path in REQUIRED if not is_absent(path)} | {"certificate.json", EPISODES}
    for path in sorted(wanted ^ set(evidence.paths)):
        yield f"{path}: {'one too many' if path in evidence.paths else 'missing'}"
    listed = {one["path"]: one for one in evidence.document("manifest.json")["file_inventory"]}
    held = set(evidence.paths) - {"manifest.json", EPISODES}
    for path in sorted(held | {path for path in listed if not is_absent(path)}):
        raw = evidence.raw(path)
        found = {"path": path, "size_bytes": len(raw), "sha256": sha256(raw)}
        yield from differs(f"manifest.json: {path}", found, listed.get(path))


def published_sums(evidence: PublishedEvidence) -> Problems:
    """Check the digests of what is there; only what is withheld may be listed and absent."""
    listed = {}
    for line in evidence.raw("SHA256SUMS").decode().splitlines():
        digest, _, path = line.partition("  ")
        listed[path] = digest
    if list(listed) != sorted(listed, key=str.encode):
        yield "SHA256SUMS: another order, or a path twice"
    held = set(evidence.paths) - {*UNSUMMED, EPISODES}
    for path in sorted(held | {path for path in listed if not is_absent(path)}):
        if listed.get(path) != sha256(evidence.raw(path)):
            yield f"SHA256SUMS: another digest of {path}"


def published_scores(evidence: PublishedEvidence) -> Problems:
    """Check that each episode is there, open or withheld as committed, with its scores."""
    names = [line["episode_id"] for line in evidence.lines_of_scores]
    is_played = evidence.config.get("episode_runner", "single_call") != "single_call"
    if len(set(names)) != len(names):
        yield "scores/per_episode.jsonl: an episode twice"
    for seq, (line, episode) in enumerate(
        zip(evidence.lines_of_scores, evidence.episodes, strict=True), 1
    ):
        members = {"seq", "leaf"} if "leaf" in episode else {"seq", "salt", "seed", "line"}
        if episode.keys() != members or episode["seq"] != seq or line["seq"] != seq:
            yield f"{EPISODES}, line {seq}: another form or place"
        if "leaf" not in episode:
            drawn = isinstance(episode["seed"], str) and SHA256.fullmatch(episode["seed"])
            if not (drawn if is_played else episode["seed"] == ""):
                yield f"{EPISODES}, line {seq}: a seed, or none, against the runner"
            yield from differs(f"{EPISODES}, line {seq}", line, episode["line"]["result"])
    yield from differs(
        "withheld", sorted(committed_to_withhold(evidence, names)), sorted(evidence.closed)
    )


def committed_to_withhold(evidence: Evidence, names: list[str]) -> set[str]:
    """Return the episodes that the template withholds: these ids, or the smallest draws."""
    chosen = evidence.config.get("withheld")
    if not isinstance(chosen, dict):
        raise DefectError(f"{EPISODES}: the template withholds nothing")
    if "share" not in chosen:
        return set(chosen["episodes"])

    def rank(name: str) -> bytes:
        drawn = f"{evidence.commitment_hash}:withheld:{name}"
        return hashlib.sha256(drawn.encode()).digest()

    return set(sorted(names, key=rank)[: math.ceil(exact(chosen["share"]) * len(names))])


def published_aggregate(evidence: PublishedEvidence) -> Problems:
    """Check that counts and means follow from the lines; the rest is as the issuer has it."""
    aggregate, lines = evidence.aggregate, evidence.lines_of_scores
    outcomes = Counter(line["outcome"] for line in lines)
    counts = aggregate["episode_counts"]
    found = {
        "total": len(lines),
        "scored": outcomes["scored"],
        "refused": outcomes["excluded"],
        "unscored": outcomes["unscored"],
        "not_run": outcomes["not_run"],
    }
    yield from differs("episode_counts", found, {name: counts[name] for name in found})
    failed = [counts["timeout"], counts["error"]]
    if any(type(one) is not int or one < 0 for one in failed) or sum(failed) != outcomes["missing"]:
        yield f"episode_counts/failures: expected {outcomes['missing']}, got {failed!r:.60}"
    for name, mean in aggregate["scores"].items():
        scores = [line["scores"][name] for line in lines if line["scores"][name] is not None]
        total = sum(round(exact(score) * NANO) for score in scores)
        by_people = any(
            one["criterion_id"] == name and one["share"] is not None
            for one in (aggregate["human_scores"] or {}).values()
        )
        if scores and not by_people:
            expected = published(Fraction(total, len(scores) * NANO))
            yield from differs(f"aggregate.json/scores/{name}", expected, mean)


def published_tier(evidence: PublishedEvidence) -> Problems:
    """Assess the stated facts again: with withheld episodes no tier but UNVERIFIED can follow."""
    stated = evidence.document("tier.json")
    moment, facts = evidence.trail[-1]["at"], stated["facts"]
    for wanted, found in problems_of_history(
        stated["history"], evidence.receipt["theatre_id"], moment
    ):
        yield f"tier.json/history: expected {wanted}, got {found:.60}"
    if "episodes-withheld" not in facts["extra_caps"]:
        yield "tier.json/facts: the cap episodes-withheld is missing"
    assessment = tier(facts, stated["history"], resolved_at=moment)
    yield from differs("tier.json/assessment", assessment, stated["assessment"])
