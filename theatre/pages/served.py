"""The pages round a certificate: home, constructs, templates, theatres, the log, and sign-in.

Each is rendered from documents that the service's interface for programs gives the same reader,
so that no page can show more than it does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from theatre import svg
from theatre.engine.canonical_json import JsonObject
from theatre.pages.rendering import plain_text, render_page
from theatre.pages.wording import REASONS

Document = Mapping[str, Any]
_CHART_WIDTH = 720
_MOST_POINTS = 100
_MOST_VERSIONS = len(svg.MARKS)
_MOST_CHOICES = 11
TIERS = {"PROVEN": "proven", "BACKTESTED": "backtested", "UNVERIFIED": "unverified"}
FAMILIES = {"replay": "a construct answers recorded episodes", "market": "a market decides"}
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
    return render_page("home.html", {"page": page, "search": search, "tiers": TIERS})


def construct_page(record: Document, routing: Document, certificates: Sequence[Document]) -> str:
    """Return the page of a construct: what came of all its commitments, and its scores so far."""
    values = {
        "record": record,
        "routing": routing,
        "certificates": certificates,
        "chart": version_chart(certificates),
        "tiers": TIERS,
        "void_reasons": VOID_REASONS,
        "reasons": REASONS,
    }
    return render_page("construct.html", values)


def version_chart(certificates: Sequence[Document]) -> str | None:
    """Return the composite scores by date of issue, a mark a version; None for fewer than two."""
    dated = [one for one in certificates if one["composite_score"] is not None]
    scored = dated[:_MOST_POINTS][::-1]
    if len(scored) < 2:  # noqa: PLR2004 - one point is no course
        return None
    versions = list(dict.fromkeys(one["construct_version"] for one in scored))[-_MOST_VERSIONS:]
    ends = {0: scored[0]["issued_at"][:10], len(scored) - 1: scored[-1]["issued_at"][:10]}
    panel = svg.Panel(60, 40, _CHART_WIDTH - 100, 190, across=(-0.5, len(scored) - 0.5))
    elements = [*panel.frame([*ends.items()], svg.SHARES, below="issued", beside="score")]
    for place, one in enumerate(scored):
        if one["construct_version"] in versions:
            number = versions.index(one["construct_version"])
            score = min(max(one["composite_score"], 0.0), 1.0)
            elements.append(panel.point(svg.MARKS[number], place, score, svg.HUES[number]))
    keys = [
        svg.Key(svg.MARKS[number], svg.HUES[number], f"version {plain_text(version, 12)}")
        for number, version in enumerate(versions)
    ]
    return svg.page(
        title="Composite scores of the certificates, in order of issue",
        width=_CHART_WIDTH,
        end=270,
        elements=elements,
        keys=keys,
    )


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
        "certificate": certificate,
        "ending": ending,
        "rating": rating,
        "states": STATES,
        "tiers": TIERS,
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
    return {
        **rating,
        "asked": [
            {
                "input": _as_text(one["input_data"]),
                "answers": [(name, _as_text(said)) for name, said in one["answers"].items()],
            }
            for one in rating["items"]
        ],
        "low": f"{low:g}",
        "high": f"{high:g}",
        "choices": [(value, scale["labels"].get(value)) for value in choices],
        "labels": scale["labels"],
        "given": given or {},
        "errors": errors,
    }


def _as_text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def sign_in_page(theatre_id: str, *, token: str, error: str | None, username: str = "") -> str:
    """Return the form of somebody who is not signed in."""
    values = {"theatre_id": theatre_id, "token": token, "error": error, "username": username}
    return render_page("sign_in.html", values)
