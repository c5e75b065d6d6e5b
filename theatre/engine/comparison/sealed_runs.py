"""Sealed runs as they are compared: their scores by episode, and whether they may be compared."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import NotComparableError, NotFoundError
from theatre.engine.models import SINGLE_CALL, EpisodeOutcome, read_episodes
from theatre.engine.scoring.arithmetic import exact, normalised_weights
from theatre.engine.scoring.tallies import COMPOSITE

_CERTIFICATE = "certificate.json"
_DATASET = "ground_truth/dataset.jsonl"
_PUBLISHED = "episodes.jsonl"
Scores = Mapping[str, Fraction]
"""Episode → score; an episode that does not count is not in it."""


class SealedRun(NamedTuple):
    """One sealed run; what does not count on a measure has no score there, failures have 0.

    `scores` are by measure (the composite, each criterion). `outcomes` have every episode in
    dataset order. `worlds` is what the draws of interactive episodes follow from; None where
    episodes are single calls. `clusters` is None where a part of the dataset is withheld.
    """

    documents: Mapping[str, JsonObject]
    outcomes: Mapping[str, EpisodeOutcome]
    scores: Mapping[str, Scores]
    worlds: tuple[str, ...] | None
    clusters: Mapping[str, str] | None
    withheld: frozenset[str]

    @property
    def certificate(self) -> dict[str, Any]:
        """Return the certificate."""
        return cast("dict[str, Any]", self.documents["certificate"])

    @property
    def is_clustered(self) -> bool:
        """Return whether the episodes of the dataset are in clusters."""
        intervals = self.certificate["score_intervals"].values()
        return any(str(one["method"]).startswith("cluster_") for one in intervals) or bool(
            self.clusters
        )


def read_sealed_run(bundle: Path) -> SealedRun:
    """Read a bundle, whole or published in part; whether it is honest, `check_bundle` says.

    Raises NotFoundError where there is none with a certificate.
    """
    if not (bundle / _CERTIFICATE).is_file():
        raise NotFoundError(f"expected an evidence bundle with a certificate at {bundle}, got none")
    documents = {
        name: parse_object((bundle / path).read_bytes())
        for name, path in (
            ("certificate", _CERTIFICATE),
            ("template", "template.json"),
            ("receipt", "commitment_receipt.json"),
            ("aggregate", "scores/aggregate.json"),
        )
    }
    lines = [cast("dict[str, Any]", one) for one in _lines(bundle / "scores/per_episode.jsonl")]
    closed = {
        cast("int", one["seq"]) for one in _lines(bundle / _PUBLISHED, missing=()) if "leaf" in one
    }
    return SealedRun(
        documents=documents,
        outcomes={one["episode_id"]: EpisodeOutcome(one["outcome"]) for one in lines},
        scores=_scores(documents["template"], lines),
        worlds=_worlds(bundle, documents),
        clusters=_clusters(bundle),
        withheld=frozenset(one["episode_id"] for one in lines if one["seq"] in closed),
    )


def _lines(path: Path, *, missing: Sequence[JsonObject] | None = None) -> Iterator[JsonObject]:
    if missing is not None and not path.is_file():
        yield from missing
        return
    with path.open("rb") as handle:
        yield from map(parse_object, handle)


def _scores(template: JsonObject, lines: Sequence[Mapping[str, Any]]) -> dict[str, Scores]:
    criteria = cast("dict[str, Any]", template["criteria"])
    names = cast("list[str]", criteria["criteria_ids"])
    weights = cast("dict[str, float]", criteria.get("weights") or dict.fromkeys(names, 1))
    found = {
        name: {
            cast("str", line["episode_id"]): exact(line["scores"][name])
            for line in lines
            if line["scores"][name] is not None
        }
        for name in names
    }
    shares = dict(zip(weights, normalised_weights(list(weights.values())), strict=True))
    weighing = [name for name, share in shares.items() if share]
    # Only an episode that counts on every criterion with a weight: else it would be another mean.
    composite = {
        episode: sum((shares[name] * found[name][episode] for name in weighing), Fraction(0))
        for episode in found[weighing[0]]
        if all(episode in found[name] for name in weighing)
    }
    return {COMPOSITE: composite, **found}


def _worlds(bundle: Path, documents: Mapping[str, JsonObject]) -> tuple[str, ...] | None:
    config = cast("dict[str, Any]", documents["template"]["product_theatre_config"])
    if config.get("episode_runner", SINGLE_CALL) == SINGLE_CALL:
        return None
    started = next(
        (one for one in _lines(bundle / "audit_trail.jsonl") if one["event_type"] == "activated"),
        cast("JsonObject", {}),
    )
    nonce = cast("dict[str, Any]", started.get("detail") or {}).get("run_nonce", "")
    receipt = documents["receipt"]
    return str(receipt["commitment_hash"]), str(receipt["coin_sha256"]), str(nonce)


def _clusters(bundle: Path) -> dict[str, str] | None:
    path = bundle / _DATASET
    if not path.is_file():
        return None
    with path.open("rb") as handle:
        episodes = read_episodes(line.removesuffix(b"\n") for line in handle)
        return {one.episode_id: one.cluster_key for one in episodes if one.cluster_key is not None}


# Whether sealed runs can be compared: the same dataset, scorers and terms, another construct.


_FEWEST = 2
_PATHS = 5
_OF_THE_CONSTRUCT = {
    "version_pins": ("constructs", "adapter_version"),
    "product_theatre_config": (
        *("construct_under_test", "construct_chain", "construct_endpoints"),
        *("adapter_type", "adapter_endpoint", "adapter_settings", "disclosure", "withheld"),
    ),
    "execution_policy": ("max_concurrency", "budget"),
}
"""What a template says of the construct, or of who may read the evidence; all else are terms."""

_WORDS = ("theatre_id", "display_name", "description", "metadata")
_OF_A_CALL = ("construct_id", "step_id")

_KINDS = (
    ("dataset", ("dataset_hashes", "oracle_config.repository", "product_theatre_config.replay")),
    ("scorers", ("scorer_pins", "scoring", "version_pins", "criteria.criteria_ids")),
)


def require_comparable(runs: Sequence[SealedRun]) -> None:
    """Raise NotComparableError unless all runs differ in nothing but the construct.

    So for fewer than two, for the same theatre twice, and for runs that committed to another
    dataset, other scorers (or other versions of them) or other terms: what differs is named.
    """
    if len(runs) < _FEWEST:
        raise NotComparableError(f"expected at least two runs to compare, got {len(runs)}")
    theatres = [run.certificate["theatre_id"] for run in runs]
    again = next((one for one in theatres if theatres.count(one) > 1), None)
    if again is not None:
        raise NotComparableError(f"expected each run once, got theatre {again} more than once")
    first = _terms(runs[0])
    for run in runs[1:]:
        paths = sorted(find_differences(first, _terms(run)), key=_rank)
        if paths:
            more = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
            raise NotComparableError(
                f"expected runs with the same {_kind(paths)}, got other members in theatres "
                f"{theatres[0]} and {run.certificate['theatre_id']}: "
                f"{', '.join(paths[:_PATHS])}{more}"
            )
        if list(run.outcomes) != list(runs[0].outcomes):
            raise NotComparableError(
                f"expected the episodes of theatre {theatres[0]} in theatre "
                f"{run.certificate['theatre_id']}, got others for the same dataset_hashes"
            )


def _terms(run: SealedRun) -> JsonObject:
    terms: dict[str, Any] = deepcopy(run.documents["template"])
    for name in _WORDS:
        terms.pop(name, None)
    for member, names in _OF_THE_CONSTRUCT.items():
        for name in names:
            terms.get(member, {}).pop(name, None)
    for step in terms["resolution_programme"]:
        for name in _OF_A_CALL if step["type"] == "construct_invocation" else ():
            step.pop(name, None)
    # A template need not pin its scorers; the receipt has those in use.
    terms["scorer_pins"] = run.documents["receipt"]["scorer_pins"]
    return terms


def _rank(path: str) -> int:
    """Return the place of a path's kind: what explains most is named first."""
    places = (at for at, (_, members) in enumerate(_KINDS) if path.startswith(members))
    return next(places, len(_KINDS))


def _kind(paths: Sequence[str]) -> str:
    rank = _rank(paths[0])
    return _KINDS[rank][0] if rank < len(_KINDS) else "terms"


def find_differences(one: JsonValue, other: JsonValue, at: str = "") -> Iterator[str]:
    """Yield the dotted paths at which two documents are not the same, in the first one's order."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys([*one, *other]):
            below = f"{at}.{name}" if at else name
            if name in one and name in other:
                yield from find_differences(one[name], other[name], below)
            else:
                yield below
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (ours, theirs) in enumerate(zip(one, other, strict=True)):
            yield from find_differences(ours, theirs, f"{at}.{place}")
    elif one != other:
        yield at
