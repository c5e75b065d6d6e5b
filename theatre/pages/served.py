"""The pages round a certificate: home, constructs, templates, theatres, the log, and sign-in.

Each is rendered from documents that the service's interface for programs gives the same reader,
so that no page can show more than it does.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from theatre import svg
from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.tier_assigner import VerificationTier
from theatre.pages.rendering import plain_text, render_page
from theatre.pages.wording import REASONS

Document = Mapping[str, Any]
_CHART_WIDTH = 720
_MOST_CHARTS = 4
_TICKS = 4
_MOST_VERSIONS = len(svg.MARKS)
_MOST_CHOICES = 11
_MOST_OF_AN_ITEM = 20_000
"""So many characters of a question, and of an answer, people are shown."""
_LINE_BREAK = re.compile(r"(\\\\)|\\n")
TIERS = {"PROVEN": "proven", "BACKTESTED": "backtested", "UNVERIFIED": "unverified"}
FAMILIES = {"replay": "A construct answers recorded questions", "market": "A market decides"}
STEPS = {
    "construct_invocation": "calls the construct",
    "deterministic_computation": "computes",
    "hitl_rubric": "asks people",
    "aggregation": "joins the scores",
}
VOID_REASONS = {
    "nothing-scored": "nothing could be scored",
    "failed": "the run failed",
    "cancelled": "cancelled",
    "abandoned": "not closed in time",
    "reproduction": "a run that was made again",
}
STATES = {
    "DRAFT": "draft: nothing is committed",
    "COMMITTED": "committed: nothing can change, no call was made",
    "ACTIVE": "running",
    "SETTLING": "settling",
    "RESOLVED": "over",
    "ARCHIVED": "over",
}


def home_page(page: Document, *, search: str) -> str:
    """Return the start page: certificates, the newest first; `page` is a list as the API's."""
    values = {"page": page, "search": search, "tiers": TIERS, "reasons": REASONS}
    return render_page("home.html", values)


Intervals = Mapping[str, tuple[float, float]]
"""Certificate → the 95 % interval of its composite score; none where it has none."""


def construct_page(
    record: Document, routing: Document, certificates: Sequence[Document], intervals: Intervals
) -> str:
    """Return the page of a construct: what came of all its commitments, and its scores so far."""
    values = {
        "record": record,
        "routing": routing,
        "certificates": certificates,
        "charts": version_charts(certificates, intervals),
        "tiers": TIERS,
        "void_reasons": VOID_REASONS,
        "reasons": REASONS,
    }
    return render_page("construct.html", values)


def version_charts(certificates: Sequence[Document], intervals: Intervals) -> list[str]:
    """Return a chart for each template with two certificates or more, the newest first.

    Scores of two templates have no common scale: they stand on no common chart.
    """
    of_template: dict[str, list[Document]] = {}
    for one in certificates:
        if one["composite_score"] is not None:
            of_template.setdefault(one["template_id"], []).append(one)
    drawn = [(name, each[::-1]) for name, each in of_template.items() if len(each) > 1]
    return [_version_chart(name, each, intervals) for name, each in drawn[:_MOST_CHARTS]]


def _version_chart(template: str, dated: Sequence[Document], intervals: Intervals) -> str:
    moments = [parse_rfc3339(one["issued_at"]) for one in dated]
    room = (moments[-1] - moments[0]) / 20 or timedelta(minutes=1)
    first, last = moments[0] - room, moments[-1] + room
    panel = svg.Panel(60, 40, _CHART_WIDTH - 110, 190, across=(first.timestamp(), last.timestamp()))
    versions = list(dict.fromkeys(one["construct_version"] for one in dated))[-_MOST_VERSIONS:]
    elements = [*panel.frame(_days(moments[0], moments[-1]), svg.SHARES, beside="score")]
    for one, moment in zip(dated, moments, strict=True):
        if one["construct_version"] in versions:
            number = versions.index(one["construct_version"])
            counts = one["effective_tier"] != VerificationTier.UNVERIFIED
            colour = svg.HUES[number] if counts else svg.GREY
            if one["certificate_id"] in intervals:
                low, high = intervals[one["certificate_id"]]
                elements.append(panel.pole(moment.timestamp(), low, high, colour))
            score = min(max(one["composite_score"], 0.0), 1.0)
            elements.append(panel.point(svg.MARKS[number], moment.timestamp(), score, colour))
    keys = [
        svg.Key(svg.MARKS[number], svg.HUES[number], f"version {plain_text(version, 12)}")
        for number, version in enumerate(versions)
    ]
    return svg.page(
        title=f"{plain_text(template, 60)}: composite scores by issue",
        width=_CHART_WIDTH,
        end=275,
        elements=elements,
        keys=keys,
        footer=[
            "Bars are 95 % intervals: where they overlap, the order of two scores may be chance.",
            "Grey: unverified now.",
        ],
    )


def _days(first: datetime, last: datetime) -> svg.Ticks:
    """Return a few moments from first to last; with the time of day where days do not part them."""
    form = "%Y-%m-%d" if last - first > timedelta(days=_TICKS) else "%Y-%m-%d\n%H:%M:%S"
    places = range(_TICKS) if last > first else range(1)
    moments = [first + (last - first) * place / (_TICKS - 1) for place in places]
    return [(one.timestamp(), one.strftime(form)) for one in moments]


def template_page(document: Document) -> str:
    """Return a template in words; `document` as the API's, with the whole `template_json`."""
    template = cast("JsonObject", document["template_json"])
    values = {"document": document, "template": template, **_describe(template)}
    return render_page("template.html", values)


def _describe(template: JsonObject) -> dict[str, Any]:
    """Return what a page says of a committed template, whose members its schema has checked."""
    criteria = cast("dict[str, Any]", template["criteria"])
    scorers = cast("dict[str, Any]", template.get("scoring") or {}).get("criteria_scorers") or {}
    rated = {one["step_id"]: one for one in cast("list[Any]", template.get("hitl_steps") or [])}
    weights = criteria.get("weights") or {}
    return {
        "criteria": [
            {
                "id": one,
                "weight": weights.get(one),
                "scorer": (scorers.get(one) or {}).get("scorer"),
            }
            for one in criteria["criteria_ids"]
        ],
        "in_words": criteria.get("criteria_human"),
        "steps": [
            {
                "id": step["step_id"],
                "does": STEPS.get(step["type"], step["type"]),
                "construct_id": step.get("construct_id"),
                "rubric": (rated.get(step["step_id"]) or {}).get("rubric"),
            }
            for step in cast("list[Any]", template.get("resolution_programme") or [])
        ],
        "config": template.get("product_theatre_config") or {},
        "constructs": cast("dict[str, Any]", template["version_pins"]).get("constructs") or {},
        "metadata": template.get("metadata") or {},
        "family": FAMILIES.get(str(template["execution_path"]), str(template["execution_path"])),
    }


def log_page(entries: Sequence[Document], *, size: int, older: int | None) -> str:
    """Return entries of the log, the newest first, each with `index`, `type` and its members."""
    values = {"entries": entries, "size": size, "older": older}
    return render_page("log.html", values | {"void_reasons": VOID_REASONS, "tiers": TIERS})


# Theatres, and what people are asked there.


def theatre_page(
    theatre_id: str,
    *,
    user: str | None,
    tokens: Mapping[str, str],
    own: Document | None = None,
    receipt: Document | None = None,
    certificate: Document | None = None,
    ending: Document | None = None,
    rating: Document | None = None,
) -> str:
    """Return a theatre as its reader may see it.

    `own` is the theatre's document, for its owner; `receipt` and `certificate` what strangers get;
    `rating` what a person is asked (`rubric_form`). `tokens`: path → token of the form there.
    """
    values = {
        "theatre_id": theatre_id,
        "user": user,
        "tokens": tokens,
        "own": own,
        "receipt": receipt,
        # Its id alone may be another author's template, too.
        "template_sha256": canonical_sha256((receipt or {}).get("template_snapshot")),
        "certificate": certificate,
        "ending": ending,
        "rating": rating,
        "states": STATES,
        "tiers": TIERS,
        "reasons": REASONS,
    }
    return render_page("theatre.html", values)


def rubric_form(
    rating: Document, given: Mapping[str, str] | None = None, errors: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what a person is asked, item by item, with what was given before and what is wrong."""
    scale = rating["scoring_scale"]
    low, high = scale["min"], scale["max"]
    is_whole = float(low).is_integer() and float(high).is_integer() and high - low < _MOST_CHOICES
    choices = [f"{value:g}" for value in range(int(low), int(high) + 1)] if is_whole else []
    asked = []
    for one in rating["items"]:
        sent = _as_text(one["input_data"])
        answers = {name: _as_text(said) for name, said in one["answers"].items()}
        longest = max(map(len, (sent, *answers.values())))
        is_cut = longest > _MOST_OF_AN_ITEM
        asked.append({"input": sent, "answers": answers.items(), "is_cut": is_cut})
    until = None
    if (limit := rating["timeout_seconds"]) is not None:
        until = format_rfc3339(parse_rfc3339(rating["opened_at"]) + timedelta(seconds=limit))
    return {
        "has_scored": False,
        **rating,
        "until": until,
        "asked": asked,
        "most": _MOST_OF_AN_ITEM,
        "low": f"{low:g}",
        "high": f"{high:g}",
        "choices": [(value, scale["labels"].get(value)) for value in choices],
        "labels": scale["labels"],
        "given": given or {},
        "errors": errors,
    }


def _as_text(value: object) -> str:
    """Return JSON whose texts break their lines: people read letters here."""
    written = json.dumps(value, indent=1, ensure_ascii=False)
    return _LINE_BREAK.sub(lambda found: found[1] or "\n", written)


def sign_in_page(theatre_id: str, *, token: str, error: str | None, username: str = "") -> str:
    """Return the form of somebody who is not signed in."""
    values = {"theatre_id": theatre_id, "token": token, "error": error, "username": username}
    return render_page("sign_in.html", values)
