"""Pictures of certificates and comparisons, drawn from their documents alone.

A picture is no evidence: it is in no bundle. Its last lines say what it was drawn from.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click

from theatre.cli.tables import score_name
from theatre.engine.canonical_json import parse_object
from theatre.engine.scoring import COMPOSITE, wilson_interval
from theatre.pages.wording import best_baseline
from theatre.svg import (
    ACCENT,
    INK,
    MARGIN,
    QUIET,
    SHARES,
    Key,
    Panel,
    area,
    box,
    cut,
    line,
    page,
    round_ticks,
    text,
    width_of,
)

Document = Mapping[str, Any]

_WIDTH = 760
_ROW = 44
_TOP = 48
_MOST_NAME = 300
_COUNTS = 3
_ROOM = 0.08
"""Free space next to the outermost bound of a comparison, in units of the difference."""


def draw_bundle(bundle: Path, folder: Path) -> list[Path]:
    """Draw the scores in a bundle into `folder`, which is made; return the files written.

    `criteria.svg` always; `reliability.svg` where the construct gave probabilities. Raises click's
    BadParameter where there can be no such folder.
    """
    certificate = parse_object((bundle / "certificate.json").read_bytes())
    aggregate = parse_object((bundle / "scores" / "aggregate.json").read_bytes())
    return write_pictures(certificate_pictures(aggregate, certificate), folder)


def write_pictures(pictures: Mapping[str, str], folder: Path) -> list[Path]:
    """Write name → SVG into `folder`, which is made; return the files written.

    Raises click's BadParameter where there can be no such folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"expected a folder, or a place where one can be made, got {folder}: {error.strerror}",
            param_hint="--plot",
        ) from error
    for name, picture in pictures.items():
        (folder / name).write_text(picture, encoding="utf-8")
    return [folder / name for name in pictures]


def certificate_pictures(aggregate: Document, certificate: Document) -> dict[str, str]:
    """Return the pictures of a theatre's certificate by name."""
    pictures = {"criteria.svg": _criteria(aggregate, certificate)}
    calibration = aggregate["calibration"]
    if calibration is not None and calibration["probabilities"]:
        pictures["reliability.svg"] = _calibration(calibration, certificate)
    return pictures


class _Score(NamedTuple):
    """A row of the picture: a score, what it is made of, and what it is compared with."""

    name: str
    score: float | None
    asked: int | None
    interval: Document
    others: Mapping[Key, float | None]


def _criteria(aggregate: Document, certificate: Document) -> str:
    rows = list(_scores(aggregate, certificate))
    names = min(_MOST_NAME, max(width_of(row.name) for row in rows))
    left = MARGIN + names + 10
    panel = Panel(
        *(left, _TOP, _WIDTH - left - 24, _ROW * len(rows)),
        across=(-0.02, 1.02),
        up=(-0.5, len(rows) - 0.5),
    )
    elements = list(panel.frame(SHARES, (), below="score, with its 95 % interval"))
    for place, row in enumerate(reversed(rows)):
        elements += _score_row(panel, place, row)
    return page(
        title=_title(certificate, f"{certificate['template_id']}: "),
        width=_WIDTH,
        end=panel.top + panel.height + 36,
        elements=elements,
        keys=[key for key in rows[0].others if any(row.others[key] is not None for row in rows)],
        footer=_foot(certificate),
    )


def _scores(aggregate: Document, certificate: Document) -> Iterator[_Score]:
    means = {**aggregate["scores"], COMPOSITE: aggregate[COMPOSITE]}
    columns = {**_split(aggregate), **_shares(aggregate, certificate), **_trivial(certificate)}
    for name, score in means.items():
        others = {key: values.get(name) for key, values in columns.items()}
        counts = certificate["score_counts"].get(name)
        count = counts["scored"] + counts["missing"] if counts else None
        yield _Score(score_name(name), score, count, aggregate["score_intervals"][name], others)


def _split(aggregate: Document) -> dict[Key, Document]:
    parts = aggregate["holdout_scores"]
    if parts is None:
        return {}
    # No score of people is split: theirs are marks of their own.
    without = ", without people" if _panels(aggregate) else ""
    return {
        Key(mark, QUIET, f"{part} ({parts[part]['episodes']} episodes{without})"): {
            **parts[part]["scores"],
            COMPOSITE: parts[part][COMPOSITE],
        }
        for part, mark in (("train", "bar"), ("holdout", "cross"))
    }


def _panels(aggregate: Document) -> dict[str, Document]:
    """Return what people scored, by the criterion that it is a part of."""
    steps = (aggregate["human_scores"] or {}).values()
    return {one["criterion_id"]: one for one in steps if one["share"] is not None}


def _shares(aggregate: Document, certificate: Document) -> dict[Key, Document]:
    """Return both parts of each score that people have a share in, the composite's included."""
    panels = _panels(aggregate)
    if not panels:
        return {}
    machine = {name: one["machine"] for name, one in panels.items()}
    weights = certificate["criteria"]["weights"]
    parts = [(weights[name], {**aggregate["scores"], **machine}[name]) for name in weights]
    if all(value is not None for _, value in parts):
        total = sum(weight for weight, _ in parts)
        machine[COMPOSITE] = sum(weight * value for weight, value in parts) / total
    said = ", ".join(f"{one['share']:g} of {name}" for name, one in panels.items())
    people = {name: one["human"] for name, one in panels.items()}
    return {
        Key("diamond", ACCENT, "without people"): machine,
        Key("square", ACCENT, f"people alone ({said})"): people,
    }


def _trivial(certificate: Document) -> dict[Key, Document]:
    """Return what the best answer without any work scores, where one was tried."""
    best = {
        name: best_baseline(certificate["baselines"], name)
        for name in certificate["criteria"]["criteria_ids"]
    }
    scores = {name: found[0] for name, found in best.items() if not isinstance(found, str)}
    return {Key("triangle", INK, "best trivial answer"): scores}


def _score_row(panel: Panel, place: int, row: _Score) -> Iterator[str]:
    x, y = panel.at(0, place)
    yield text(panel.left - 10, y + 4, cut(row.name, _MOST_NAME), anchor="end")
    if row.score is None:
        yield text(x + 4, y + 4, "no score", colour=QUIET)
        return
    low, high = row.interval["low"], row.interval["high"]
    if low is not None and high is not None:
        yield panel.whisker(low, high, place, ACCENT)
    yield panel.point("disc", row.score, place, ACCENT)
    for key, value in row.others.items():
        if value is not None:
            yield panel.point(key.mark, value, place, key.colour)
    x, _ = panel.at(row.score, place)
    anchor = "start" if row.score < 0.5 else "end"  # noqa: PLR2004 - towards the middle
    words = row.interval["method"] + ("" if row.asked is None else f", n = {row.asked}")
    yield text(x, y - 10, f"{row.score:.3f} ({words})", size=10, anchor=anchor)


def _title(certificate: Document, before: str = "") -> str:
    version = str(certificate["construct_version"])[:12]
    return f"{before}{certificate['construct_id']} @ {version}"


def _foot(certificate: Document) -> list[str]:
    """Return what belongs to each score: tier and findings, episodes, dates and hashes."""
    audit, counts = certificate["data_audit"], certificate["episode_counts"]
    parts = [str(certificate["verification_tier"])]
    if audit is not None:
        parts.append(f"{audit['episodes']} questions, {audit['distinct_inputs']} distinct")
    codes = Counter(finding.partition(":")[0] for finding in certificate["findings"])
    parts += [code if times == 1 else f"{code} ({times})" for code, times in codes.items()]
    return [
        "; ".join(parts),
        f"n = {counts['scored']} of {counts['total']} episodes scored",
        _dates("resolved", certificate["theatre_resolved_at"], certificate["expires_at"]),
        f"commitment {certificate['commitment_hash']}",
        f"results {certificate['results_hash']}",
    ]


def _dates(what: str, time: str, expires: str | None) -> str:
    ends = f"expires {expires[:10]}" if expires else "no expiry"
    return f"{what} {time[:10]}, {ends}"


@dataclass(frozen=True, slots=True)
class _Bin:
    """One bin of stated confidence that is not empty; all but the count are shares."""

    low: float
    high: float
    count: int
    mean: float
    share: float


def _calibration(calibration: Document, certificate: Document) -> str:
    summary = [f"n = {calibration['probabilities']}", f"Brier {calibration['brier_score']:.3f}"]
    ece = calibration["ece"]
    if ece is None:
        summary.append(f"no ECE: {calibration['ece_reason']}")
    else:
        expected, upper = ece["expected_if_calibrated"], ece["upper_95_if_calibrated"]
        summary += [
            f"ECE {ece['value']:.3f}",
            f"if calibrated: {expected:.3f}, 95 % below {upper:.3f}",
        ]
    return _reliability(
        _bins(calibration, "mean_probability", "share_right"),
        summary=summary,
        labels=("share that was right (Wilson 95 %)", "answers"),
        below=f"confidence that the construct gave ({calibration['criterion']})",
        title=_title(certificate, f"{certificate['template_id']}: "),
        footer=_foot(certificate),
    )


def claim_reliability(certificate: Document) -> str:
    """Return the picture of a verification certificate that has stated claims."""
    calibration, brier = certificate["claim_calibration"], certificate["brier"]
    by_words = certificate["judge"] is None
    supported = "whose words occur" if by_words else "that the model supports"
    scored = (
        f"no Brier score: {certificate['brier_reason']}" if brier is None else f"Brier {brier:.3f}"
    )
    theatre = certificate["theatre_certificate"]
    return _reliability(
        _bins(calibration, "mean_confidence", "share_supported"),
        summary=[f"n = {calibration['stated']} claims", scored],
        labels=(f"share of claims {supported} (Wilson 95 %)", "claims"),
        below="confidence that the oracle stated for a claim",
        title=_title(certificate),
        footer=[
            f"{certificate['verification_tier']}; n = {certificate['replay_count']} replays",
            _dates("issued", certificate["timestamp"], certificate["expires_at"]),
            f"certificate {theatre['sha256']}",
        ],
    )


def _bins(calibration: Document, mean: str, share: str) -> list[_Bin]:
    return [
        _Bin(one["low"], one["high"], one["count"], one[mean], one[share])
        for one in calibration["bins"]
        if one["count"]
    ]


def _reliability(
    bins: Sequence[_Bin],
    *,
    summary: Sequence[str],
    labels: tuple[str, str],
    below: str,
    title: str,
    footer: Sequence[str],
) -> str:
    """Draw stated confidence against what came of it, above the number of values in each bin."""
    highest = max((one.count for one in bins), default=1)
    upper = Panel(72, _TOP, 460, 360, up=(-0.02, 1.02))
    lower = Panel(72, _TOP + 394, 460, 80, up=(0, highest * 1.05))
    elements = [
        *upper.frame(SHARES, SHARES, beside=labels[0]),
        *lower.frame(SHARES, round_ticks(0, highest, _COUNTS), below=below, beside=labels[1]),
        line([upper.at(0, 0), upper.at(1, 1)], QUIET, dashes="4 3"),
    ]
    for one in bins:
        interval: Document = wilson_interval(round(one.share * one.count), one.count)
        elements.append(upper.pole(one.mean, interval["low"], interval["high"], ACCENT))
        elements.append(upper.point("disc", one.mean, one.share, ACCENT))
        x, y = lower.at((one.low + one.high) / 2 - 0.045, one.count)
        wide = 0.09 * lower.width
        elements.append(area(box(x, y, wide, lower.top + lower.height - y), ACCENT, 1))
    right, bottom = upper.at(0.99, 0.01)
    for row, words in enumerate(reversed(summary)):
        elements.append(text(right, bottom - 6 - 14 * row, words, size=10, anchor="end"))
    return page(
        title=title,
        width=556,
        end=lower.top + lower.height + 36,
        elements=elements,
        keys=[Key("dashed", QUIET, "perfectly calibrated")],
        footer=footer,
    )


def differences(comparison: Document) -> str:
    """Return how far constructs stand apart: a panel a measure, a line a pair of runs."""
    pairs, measures = comparison["pairs"], list(comparison["ranking"])
    named = [f"{pair['first']} minus {pair['second']}" for pair in pairs]
    left = MARGIN + min(_MOST_NAME, max(map(width_of, named), default=0)) + 10
    reach = _reach(pairs, measures)
    ticks = round_ticks(-reach, reach)
    height, elements, top = 28 * len(pairs), list[str](), _TOP
    is_paired = all(pair["is_paired"] for pair in pairs)
    how = "episode by episode" if is_paired else "two samples where worlds differ"
    for measure in measures:
        panel = Panel(
            *(left, top + 8, 840 - left - 130, height),
            across=(-reach, reach),
            up=(-0.5, len(pairs) - 0.5),
        )
        elements.append(text(left, top, score_name(measure)))
        below = f"first minus second, {how}, with its 95 % interval"
        is_last = measure == measures[-1]
        elements += panel.frame(ticks, (), below=below if is_last else "")
        elements.append(panel.upright(0, QUIET))
        for place, (words, pair) in enumerate(reversed([*zip(named, pairs, strict=True)])):
            elements.append(
                text(left - 10, panel.at(0, place)[1] + 4, cut(words, _MOST_NAME), anchor="end")
            )
            elements += _difference(panel, place, pair["measures"][measure])
        top += height + 52
    return page(
        title="Differences between constructs on the same dataset",
        width=840,
        end=top - 8,
        elements=elements,
        footer=[*_compared(comparison), f"dataset {comparison['dataset_hash']}"],
    )


def _compared(comparison: Document) -> Iterator[str]:
    for name, run in comparison["runs"].items():
        dates = _dates("resolved", run["theatre_resolved_at"], run["expires_at"])
        scored = f"n = {run['replay_count']} of {comparison['episodes']} episodes scored"
        yield f"{name}: {run['verification_tier']}, {scored}, {dates}"
        yield f"results {run['results_hash']}"


def _reach(pairs: Sequence[Document], measures: Sequence[str]) -> float:
    found = [pair["measures"][measure]["difference"] for pair in pairs for measure in measures]
    bounds: list[float] = [
        abs(bound) for one in found for bound in (one["low"], one["high"]) if bound is not None
    ]
    return max(bounds, default=0.0) + _ROOM


def _difference(panel: Panel, place: int, one: Document) -> Iterator[str]:
    difference = one["difference"]
    x, y = panel.at(panel.across[1], place)
    if difference["value"] is None:
        yield text(panel.left + 8, y + 4, "no episode counts for both", size=10, colour=QUIET)
        return
    if difference["low"] is not None:
        yield panel.whisker(difference["low"], difference["high"], place, ACCENT)
    yield panel.point("disc", difference["value"], place, ACCENT)
    counts = {*one["counted"].values()} if one["is_paired"] else one["counted"].values()
    words = f"{difference['value']:+.3f} (n = {', '.join(map(str, counts))})"
    yield text(x + 8, y + 4, words, size=10)
