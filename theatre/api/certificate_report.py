"""What the page of a certificate shows, read from its bundle: for `echelon report`."""

import gzip
import io
import tarfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from theatre.api.episodes import read_run
from theatre.api.results import Episode
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.episode_root import withheld_episodes
from theatre.engine.templates import product_template
from theatre.engine.tier_assigner import (
    EffectiveTier,
    IssuedCertificateFacts,
    TierAssigner,
    TierHistory,
    VerificationTier,
)
from theatre.files.recorded_run import BundledRun
from theatre.pages.certificate_page import (
    MOST_IN_REPORT,
    TEXT_BYTES,
    CertificatePage,
    EpisodeLine,
    HeldBundle,
    Vouching,
    choose_episodes,
    describe_value,
)

MOST_HELD = 640 * 1024
"""Bytes of a packed bundle that a report has inside: with it, a report stays below 1.5 MB."""


def page_of_certificate(certificate: JsonObject, *, now: datetime) -> CertificatePage:
    """Return the page of a certificate alone: nothing is checked, and no episode is listed."""
    return CertificatePage(
        certificate=certificate, worth=_worth(certificate, TierHistory(), now=now)
    )


def page_of_bundle(
    bundle: Path,
    report: CheckReport | None,
    *,
    record: str | None,
    now: datetime,
    most: int = MOST_IN_REPORT,
    is_closed: bool = False,
) -> CertificatePage:
    """Return the page of a bundle: `report` says what vouches for it, None where nothing does.

    At most `most` episodes are on it; where it `is_closed`, with no question and no answer.

    `record` says which of the logged runs of its version it is, where a log is at hand. What the
    template withholds is not on the page, also where the bundle has it.
    """
    run = BundledRun(bundle)
    certificate = parse_object((bundle / "certificate.json").read_bytes())
    tier: Mapping[str, Any] = parse_object((bundle / "tier.json").read_bytes())
    aggregate: Any = parse_object((bundle / "scores" / "aggregate.json").read_bytes())
    private = None if is_closed else _private(run, certificate)
    criteria = _Marks()
    counts: Any = certificate["episode_counts"]
    shown = choose_episodes(
        (_line(one, private) for one in criteria.noticed(read_run(run))),
        total=counts["total"],
        most=most,
    )
    return CertificatePage(
        certificate=certificate,
        template=run.template,
        worth=_worth(certificate, TierHistory.from_document(tier["history"]), now=now),
        vouching=Vouching(
            verdict=None if report is None else report.verdict,
            because=None if report is None else _said(report),
            record=record,
        ),
        unmet=tier["assessment"]["unmet"],
        history=tier["history"],
        all_or_nothing=criteria.all_or_nothing(),
        people=[*(aggregate["human_scores"] or {}).values()] if private == frozenset() else (),
        probabilities=(aggregate["calibration"] or {}).get("probabilities"),
        episodes=shown,
        verification={},
        held=_held(bundle) if private == frozenset() else None,
    )


def _held(bundle: Path) -> HeldBundle | None:
    """Return a bundle as a page has it inside; None for one that is too large for that.

    Two packings of one bundle are the same bytes: no times, owners or orders of a file system.
    """
    packed, trust = io.BytesIO(), bundle / "proofs" / "trust.json"
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(one for one in bundle.rglob("*") if one.is_file()):
            entry = tarfile.TarInfo(path.relative_to(bundle).as_posix())
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(entry, content)
            if packed.tell() > MOST_HELD:
                return None
    if packed.tell() > MOST_HELD:
        return None
    return HeldBundle(
        archive=b64encode(packed.getvalue()).decode("ascii"),
        trust=b64encode(trust.read_bytes()).decode("ascii") if trust.is_file() else None,
    )


def _said(report: CheckReport) -> str:
    """Return the reason of a verdict for another reader than the one who made the check."""
    return report.because.replace("your own key", "the key of who made this page")


def _worth(certificate: Mapping[str, Any], history: TierHistory, *, now: datetime) -> EffectiveTier:
    issued = IssuedCertificateFacts(
        construct_id=certificate["construct_id"],
        construct_version=certificate["construct_version"],
        tier=VerificationTier(certificate["verification_tier"]),
        issued_at=parse_rfc3339(certificate["issued_at"]),
        resolved_at=parse_rfc3339(certificate["theatre_resolved_at"]),
    )
    return TierAssigner.effective(issued, history, now=now)


def _private(run: BundledRun, certificate: Mapping[str, Any]) -> frozenset[str] | None:
    """Return which episodes only their owner may see; None for all of them."""
    config = product_template(run.template).product_theatre_config
    if config.disclosure == "public":
        return frozenset()
    if config.withheld is None:
        return None
    ids = [one.episode_id for one in run.episodes()]
    return withheld_episodes(config, certificate["commitment_hash"], ids)


class _Marks:
    """Notes which criteria only ever scored 0 or 1, while episodes pass by."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._between: set[str] = set()

    def noticed(self, episodes: Iterator[Episode]) -> Iterator[Episode]:
        for episode in episodes:
            for name, score in episode.scores.items():
                if score is not None:
                    self._seen.add(name)
                if score not in {0, 1, None}:
                    self._between.add(name)
            yield episode

    def all_or_nothing(self) -> frozenset[str]:
        return frozenset(self._seen - self._between)


def _line(episode: Episode, private: frozenset[str] | None) -> EpisodeLine:
    is_withheld = private is None or episode.episode_id in private
    texts = (
        {}
        if is_withheld
        else {
            "asked": describe_value(episode.input_data, most=TEXT_BYTES),
            "expected": describe_value(episode.expected, most=TEXT_BYTES),
            "answered": describe_value(_answer(episode), most=TEXT_BYTES),
        }
    )
    return EpisodeLine(
        seq=episode.seq,
        episode_id=episode.episode_id,
        outcome=episode.outcome,
        error=None if is_withheld else episode.error,
        composite=episode.composite,
        scores=episode.scores,
        is_withheld=is_withheld,
        **texts,
    )


def _answer(episode: Episode) -> object:
    """Return the answer, and by whom it is where there are several."""
    answers = [*episode.answers.values()]
    if len(answers) == 1:
        return answers[0]
    return episode.answers or None
