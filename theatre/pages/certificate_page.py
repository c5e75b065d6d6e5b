"""The page of one certificate: what it says and what it is worth at a moment, as HTML.

A pure function of values. The verdict stands first, next to everything that limits it; no sentence
here may claim more than the certificate does (docs/certificate.md, "The wording rule").
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, NamedTuple, TypeGuard

from theatre.engine.bundle_check import Verdict
from theatre.engine.scoring import COMPOSITE
from theatre.engine.tier_assigner import CertificateStatus, EffectiveTier, VerificationTier
from theatre.pages import wording
from theatre.pages.rendering import render_file, render_page
from theatre.svg import strip

Document = Mapping[str, Any]

MOST_ON_PAGE = 25
"""Episodes on a page that is served: so that it stays below 60 KB."""
MOST_IN_REPORT = 1000
"""In a report: so that it can be sent, below 1.5 MB."""
TEXT_BYTES = 240
"""Of each text of an episode in a list, as HTML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLine:
    """One episode as a page lists it; texts are cut already, None where there is none.

    `is_withheld`: the template keeps it private, so question, answer and expectation are None.
    """

    seq: int
    episode_id: str
    outcome: str
    error: str | None
    composite: float | None
    scores: Mapping[str, float | None]
    asked: str | None = None
    expected: str | None = None
    answered: str | None = None
    is_withheld: bool = False

    @property
    def is_failure(self) -> bool:
        """Return whether it has no answer that was scored."""
        return self.outcome != "scored"


class Shown(NamedTuple):
    """The episodes that a page lists, failures and low scores first, out of how many."""

    lines: Sequence[EpisodeLine]
    total: int
    every: int | None
    """Of those that are not among the worst, each so-many-th is listed; None where all are."""


def choose_episodes(lines: Iterable[EpisodeLine], *, total: int, most: int) -> Shown:
    """Return at most `most` of `total` episodes; lines are read once, and not kept.

    Where there are more, half are the worst, and half are spread evenly over the dataset: the
    worst alone would say nothing of the others.
    """
    if total <= most:
        return Shown(sorted(lines, key=_badness), total, None)
    half = most // 2
    every = -(-total // (most - half))
    spread: list[EpisodeLine] = []

    def noticed() -> Iterable[EpisodeLine]:
        for place, line in enumerate(lines):
            if place % every == 0:
                spread.append(line)
            yield line

    worst = nsmallest(half, noticed(), key=_badness)
    found = {line.seq: line for line in (*worst, *spread)}
    return Shown(sorted(found.values(), key=_badness), total, every)


def _badness(line: EpisodeLine) -> tuple[bool, float, int]:
    return (not line.is_failure, 2.0 if line.composite is None else line.composite, line.seq)


class IssuersWord(NamedTuple):
    """What a service knows of a certificate that it issued: its own word, until a reader checks.

    `signed_by` is the id of the key whose signature it verified, None where it found none that
    counts; `why_not` says why. `entry` is the certificate's place in the service's log.
    """

    signed_by: str | None
    entry: int | None
    why_not: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouching:
    """What vouches for a certificate: the verdict of a check, and where a log has it.

    `verdict` is None where nothing was checked for this page; then `issuer` is what the service
    says that serves it. `record` says which of the logged runs of its version it is ("run 1 of
    1"), where a log was asked.
    """

    verdict: Verdict | None = None
    issuer: IssuersWord | None = None
    because: str | None = None
    record: str | None = None
    run_by: str | None = None
    owner_confirmed: bool | None = None
    template_accepted: bool | None = None


class HeldBundle(NamedTuple):
    """What a page that is one file verifies: archive (tar.gz) and trust.json, both in base64."""

    archive: str
    trust: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePage:
    """Everything that the page of a certificate shows.

    `certificate` fits the certificate's schema; `template`, `unmet` and `history` are None where
    they are not at hand. `history` is that of `tier.json`, as amended since. `all_or_nothing` are
    criteria that scored 0 or 1 in each episode. `people` are the entries of `human_scores` in
    `scores/aggregate.json`, `probabilities` is of how many answers its Brier score is. `links` are
    addresses by name: `document`, `bundle`, `badge`, `page`, `construct`, `theatre`, `template`,
    `episodes`, `log`. `verification` are data attributes of the section in which the page verifies
    itself: addresses of `bundle` and `trust`.
    None leaves that out. `held` is what it verifies where the page is one file.
    """

    certificate: Document
    worth: EffectiveTier
    template: Document | None = None
    vouching: Vouching = field(default_factory=Vouching)
    unmet: Sequence[Document] | None = None
    history: Document | None = None
    all_or_nothing: frozenset[str] = frozenset()
    people: Sequence[Document] = ()
    probabilities: int | None = None
    episodes: Shown | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    verification: Mapping[str, str] | None = None
    held: HeldBundle | None = None


def render_certificate(page: CertificatePage) -> str:
    """Return the page as a service serves it."""
    return render_page("certificate.html", _values(page))


def render_report(page: CertificatePage) -> str:
    """Return the page as one file, with style and script inside; it asks for nothing else."""
    return render_file("certificate.html", _values(page))


def _values(page: CertificatePage) -> dict[str, Any]:
    certificate, rows = page.certificate, [*_score_rows(page)]
    return {
        "page": page,
        "certificate": certificate,
        "template": page.template or {},
        "standing": standing_of(page.worth, page.vouching),
        "headline": rows[0],
        "rows": rows,
        "counts": certificate["episode_counts"],
        "audit": certificate["data_audit"],
        "missing": _missing(page),
        "next_tier": _next_tier(certificate["verification_tier"]),
        "findings": [_finding(certificate, one) for one in certificate["findings"]],
        "reasons": [wording.explain_code(one, wording.REASONS) for one in page.worth.reasons],
        "tiers": wording.TIERS,
        "vouched": vouched_for(page.vouching),
        "outcomes": wording.OUTCOMES,
        "version_sources": wording.VERSION_SOURCES,
        "no_agreement": wording.NO_AGREEMENT,
        "methods": wording.METHODS,
        "does_not_prove": wording.DOES_NOT_PROVE,
        "past": _past(page.history),
    }


_COUNTED = {"answers-in-inputs": "answers_in_inputs", "near-duplicates": "near_duplicates"}


def _finding(certificate: Document, code: object) -> tuple[str, str | None]:
    """Return the words for a finding, with how many questions it is about where that is counted."""
    words, part = wording.explain_code(code, wording.FINDINGS)
    audit = certificate["data_audit"]
    if code in _COUNTED:
        counted = "Some" if audit is None else audit[_COUNTED[str(code)]]
        return words, counted if audit is None else f"{counted} of {audit['episodes']}"
    return words, "the composite" if part == COMPOSITE else part


# What it is worth.


class Standing(NamedTuple):
    """How a certificate stands, as a word, a sign that is no colour, and a class of the style."""

    kind: str
    sign: str
    words: str


def standing_of(worth: EffectiveTier, vouching: Vouching) -> Standing:
    """Return how a certificate stands; the worst that is known of it comes first.

    What nothing vouches for never looks good: anyone can make a bundle that is consistent.
    """
    tier = str(worth.tier)
    vouched, _ = vouched_for(vouching)
    known = (
        (vouching.verdict is Verdict.NOT_VALID, Standing("bad", "✕", "NOT VALID")),
        (vouched == "bad", Standing("bad", "✕", "NOT SIGNED")),
        (worth.status is CertificateStatus.REVOKED, Standing("bad", "✕", "REVOKED")),
        ("dispute-open" in worth.reasons, Standing("bad", "!", "DISPUTED")),
        (worth.status is CertificateStatus.EXPIRED, Standing("bad", "✕", "EXPIRED")),
        (worth.tier is not worth.issued_tier, Standing("warn", "?", tier)),
        (worth.tier is VerificationTier.UNVERIFIED, Standing("warn", "?", tier)),
        (vouched != "good", Standing("warn", "?", tier)),
    )
    return next((one for holds, one in known if holds), Standing("good", "✓", tier))


_VOUCHED: Mapping[Verdict, tuple[str, str]] = {
    Verdict.LOGGED: ("good", "Signed and logged"),
    Verdict.VALID: ("good", "Signed, or equal to a copy that was kept; not logged"),
    Verdict.CONSISTENT: ("warn", "It recomputes, but nothing vouches for it: no trusted signature"),
    Verdict.NOT_VALID: ("bad", "NOT VALID: the check of its evidence failed"),
}


def vouched_for(vouching: Vouching) -> tuple[str, str]:
    """Return what vouches for a certificate, as a class of the style and words.

    What a service says of itself is called so. It looks good only where the signature counts and
    the log has the certificate: a reader can check both.
    """
    if vouching.verdict is not None:
        return _VOUCHED[vouching.verdict]
    said = vouching.issuer
    if said is None:
        return "warn", "Not checked for this page"
    if said.signed_by is None:
        return "bad", f"No signature that counts: {said.why_not}"
    signed = f"Signed by this service with its key {said.signed_by[:12]}…"
    if said.entry is None:
        return "warn", f"{signed}, and not in its log yet"
    return "good", f"{signed}, and entry {said.entry} of its log"


def _next_tier(tier: object) -> str | None:
    if tier == VerificationTier.PROVEN:
        return None
    is_backtested = tier == VerificationTier.BACKTESTED
    return str(VerificationTier.PROVEN if is_backtested else VerificationTier.BACKTESTED)


class Missing(NamedTuple):
    """What keeps a certificate from the next tier; `seen` is None where nothing says it."""

    words: tuple[str, str | None]
    code: object
    seen: object


def _in_days(seen: object) -> object:
    """Return a span such as `90 days, 0:00:00` without its hours; anything else as it is."""
    if re.fullmatch(r"(\d+ days?, )?\d+:\d\d:\d\d(\.\d+)?", str(seen)) is None:
        return seen
    days, comma, _ = str(seen).partition(", ")
    return days if comma else "less than a day"


def _missing(page: CertificatePage) -> list[Missing]:
    seen = {one["code"]: one["seen"] for one in page.unmet or ()}
    return [
        Missing(wording.explain_code(code, wording.CAPS), code, _in_days(seen.get(code)))
        for code in page.certificate["caps"]
    ]


class Past(NamedTuple):
    """What happened around a certificate: a heading, and lines of names and values."""

    heading: str
    lines: Sequence[Document]


_PAST = {
    "disputes": "Disputes",
    "attestations": "Reproductions",
    "telemetry": "Use in production",
    "signals": "Behaviour in use",
    "runs": "Earlier runs",
}


def _past(history: Document | None) -> list[Past] | None:
    if history is None:
        return None
    return [Past(words, history[name]) for name, words in _PAST.items() if history.get(name)]


# Scores.


class ScoreRow(NamedTuple):
    """One score with all that belongs to it; `n` of the composite is what the run asked."""

    name: str
    score: float | None
    low: float | None
    high: float | None
    method: object
    n: int
    missing: int
    not_applicable: int
    weight: float | None
    is_share: bool
    best: tuple[float, str] | str
    picture: str


def _score_rows(page: CertificatePage) -> Iterable[ScoreRow]:
    certificate = page.certificate
    names = [*certificate["scores"]]
    if len(names) > 1:
        counts = certificate["episode_counts"]
        failed = counts["timeout"] + counts["error"]
        composite = certificate["composite_score"]
        yield _row(page, COMPOSITE, composite, (counts["scored"] + failed, failed, 0))
    for name in names:
        one = certificate["score_counts"][name]
        counted = one["scored"] + one["missing"], one["missing"], one["not_applicable"]
        yield _row(page, name, certificate["scores"][name], counted)


def _row(
    page: CertificatePage, name: str, score: float | None, counted: tuple[int, int, int]
) -> ScoreRow:
    certificate = page.certificate
    interval, best = certificate["score_intervals"][name], _best(certificate, name)
    low, high = interval["low"], interval["high"]
    return ScoreRow(
        name="Overall" if name == COMPOSITE else name,
        score=score,
        low=low,
        high=high,
        method=interval["method"],
        n=counted[0],
        missing=counted[1],
        not_applicable=counted[2],
        weight=(certificate["criteria"]["weights"] or {}).get(name),
        is_share=name in page.all_or_nothing,
        best=best,
        picture=strip(score, low, high, None if isinstance(best, str) else best[0]),
    )


def _best(certificate: Document, name: str) -> tuple[float, str] | str:
    found = "" if name == COMPOSITE else wording.best_baseline(certificate["baselines"], name)
    return found if isinstance(found, str) else (found[0], wording.BASELINES[found[1]])


# Episodes as text.


def describe_value(value: object, *, most: int) -> str | None:
    """Return a JSON value as text for people, a line a member, in at most `most` bytes of HTML."""
    if value is None:
        return None
    lines: list[str] = []
    if _is_flat(value):
        # Each member gets its share: a long one must not hide those behind it.
        room = max(most // len(value), most // 4)
        for name, one in value.items():
            words = f"{name}: {_as_text(one)}"
            lines.append(words if len(words) <= room else f"{words[:room]}…")
    words = "\n".join(lines) or _as_text(value)
    left = most
    for place, character in enumerate(words):
        # What escaping makes of the five signs of HTML.
        left -= 5 if character in "&<>\"'" else len(character.encode("utf-8", "replace"))
        if left < 0:
            return f"{words[:place]}…"
    return words


def _is_flat(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping) and bool(value)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
