"""The badge of a certificate: a small picture that says no more than the certificate does.

With a score it quotes all that the wording rule asks for (docs/certificate.md): tier, score, n,
interval, dates and commitment hash. Without a tier it has no score. Its colour follows the tier as
it stands, never the score.
"""

from collections.abc import Mapping
from typing import Any

from theatre.engine.scoring import COMPOSITE
from theatre.engine.tier_assigner import EffectiveTier, VerificationTier
from theatre.pages import wording
from theatre.pages.rendering import format_percent, format_range, plain_text
from theatre.svg import badge_of

_DATE = len("2026-11-23")
_HASH = 12
_COLOURS = {
    VerificationTier.UNVERIFIED: "#52606d",
    VerificationTier.BACKTESTED: "#1b5e9b",
    VerificationTier.PROVEN: "#1a6b3c",
}


def render_badge(certificate: Mapping[str, Any] | None, worth: EffectiveTier | None) -> str:
    """Return the badge of a certificate at the moment of `worth`; None for a construct without."""
    if certificate is None or worth is None:
        lines = ("UNVERIFIED", "no certificate that counts")
        return badge_of(lines, lines[1], _COLOURS[VerificationTier.UNVERIFIED])
    lines, sentence = _lines(certificate, worth)
    return badge_of(lines, plain_text(sentence, 600), _COLOURS[worth.tier])


def _lines(certificate: Mapping[str, Any], worth: EffectiveTier) -> tuple[tuple[str, str], str]:
    construct = plain_text(certificate["construct_id"], 60)
    if worth.tier is VerificationTier.UNVERIFIED:
        why = _why(certificate, worth)
        return ("UNVERIFIED", why), f"{construct} is UNVERIFIED: {why}"
    name, score, n = _headline(certificate)
    interval = certificate["score_intervals"][name]
    bounds = format_range(interval["low"], interval["high"])
    dates = _dates(certificate)
    refused = certificate["episode_counts"]["refused"]
    of = f"n = {n}, {refused} refused" if refused else f"n = {n}"
    shown = f"{worth.tier} · {format_percent(score)} ({bounds}), {of}"
    commitment = plain_text(certificate["commitment_hash"], 64)
    subject = "the composite" if name == COMPOSITE else plain_text(name, 60)
    sentence = (
        f"{construct} scored {format_percent(score)} on {subject} ({of}, 95 % interval {bounds})"
        f"; tier {worth.tier}, {dates}, commitment {commitment}"
    )
    said = _without_work(certificate)
    return (shown, f"{dates}, {commitment[:_HASH]}{said}"), f"{sentence}{said}"


def _without_work(certificate: Mapping[str, Any]) -> str:
    """Return on how many criteria a trivial answer does as well, if on any."""
    met = wording.count_met(certificate["findings"])
    if not met:
        return ""
    of = "" if len(certificate["scores"]) == 1 else f" on {met} of {len(certificate['scores'])}"
    return f"; a trivial answer does as well{of}"


def _headline(certificate: Mapping[str, Any]) -> tuple[str, float | None, int]:
    scores = certificate["scores"]
    if len(scores) == 1:
        ((name, score),) = scores.items()
        counts = certificate["score_counts"][name]
        return name, score, counts["scored"] + counts["missing"]
    counts = certificate["episode_counts"]
    n = counts["scored"] + counts["timeout"] + counts["error"]
    return COMPOSITE, certificate[COMPOSITE], n


def _dates(certificate: Mapping[str, Any]) -> str:
    resolved, expires = certificate["theatre_resolved_at"], certificate["expires_at"]
    ends = f"expires {plain_text(expires, 40)[:_DATE]}" if expires else "no expiry"
    return f"resolved {plain_text(resolved, 40)[:_DATE]}, {ends}"


def _why(certificate: Mapping[str, Any], worth: EffectiveTier) -> str:
    if worth.reasons:
        words, part = wording.explain_code(worth.reasons[0], wording.REASONS)
    else:
        codes = certificate["caps"] or ("",)
        words, part = wording.explain_code(codes[0], wording.CAPS)
    return plain_text(words.replace("{}", part or ""), 90) or "too little evidence"
