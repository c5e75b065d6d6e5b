"""Text that others wrote is text on every page, in every report and on every badge."""

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.sealed_evidence import sealed_document
from theatre.engine.bundle_check import Verdict
from theatre.engine.tier_assigner import CertificateStatus, EffectiveTier, VerificationTier
from theatre.pages.badge import render_badge
from theatre.pages.certificate_page import (
    CertificatePage,
    EpisodeLine,
    Shown,
    Vouching,
    render_certificate,
    render_report,
)
from theatre.pages.rendering import isolated_text, plain_text

PLANTED = {
    "script": "<script id=planted>alert(1)</script>",
    "image": "\"'><img id=planted src=x onerror=alert(1)>",
    "attribute": '" onmouseover="alert(1)" id="planted',
    "comment": "--><b id=planted>]]></style></script><b id=planted>{{ 7 * 191 }}",
    "bidi": "\u202e\u2066evil\u2069\u200f",
    "right to left": "שלום عليكم",
    "long": "W" * 10_000,
    "null": None,
}
WORTH = EffectiveTier(
    tier=VerificationTier.BACKTESTED,
    issued_tier=VerificationTier.BACKTESTED,
    status=CertificateStatus.CURRENT,
    reasons=(),
    as_of=datetime(2026, 12, 1, tzinfo=UTC),
)
UNVERIFIED = EffectiveTier(
    tier=VerificationTier.UNVERIFIED,
    issued_tier=VerificationTier.BACKTESTED,
    status=CertificateStatus.CURRENT,
    reasons=("dispute-open", "unheard-of"),
    as_of=datetime(2026, 12, 1, tzinfo=UTC),
)


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def planted_everywhere(document: Any, value: str | None) -> Any:  # noqa: ANN401 - any JSON
    """Return a document with `value` in place of each of its texts; names of criteria, too."""
    if isinstance(document, dict):
        return {name: planted_everywhere(one, value) for name, one in document.items()}
    if isinstance(document, list):
        return [planted_everywhere(one, value) for one in document]
    return value if isinstance(document, str) else document


def strings(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401 - any JSON
    """Yield the path of each text of a document."""
    if isinstance(document, str):
        yield path
    items = document.items() if isinstance(document, dict) else ()
    for name, one in enumerate(document) if isinstance(document, list) else items:
        yield from strings(one, (*path, name))


def values_of(name: str) -> dict[str, Any]:
    certificate = sealed_document(name, "certificate.json")
    history = {
        "disputes": [{"dispute_id": "d", "status": "filed", "reason": "labels"}],
        "attestations": [{"attester_id": "a"}],
        "telemetry": [],
        "signals": [],
        "runs": [],
    }
    return {
        "certificate": certificate,
        "template": sealed_document(name, "template.json"),
        "unmet": sealed_document(name, "tier.json")["assessment"]["unmet"],
        "history": history,
        "episode": {
            "episode_id": "e",
            "outcome": "scored",
            "error": "timeout: slow",
            "asked": "a",
            "expected": "b",
            "answered": "c",
        },
        "vouching": {"because": "signed", "record": "run 1 of 1", "run_by": "ada"},
        "verification": {"bundle": "x"},
    }


def page_of(values: dict[str, Any], worth: EffectiveTier = WORTH) -> CertificatePage:
    line = EpisodeLine(seq=1, composite=0.5, scores={"a": 1, "b": None}, **values["episode"])
    return CertificatePage(
        certificate=values["certificate"],
        worth=worth,
        template=values["template"],
        vouching=Vouching(verdict=Verdict.LOGGED, **values["vouching"]),
        unmet=values["unmet"],
        history=values["history"],
        episodes=Shown([line], 163, 2),
        links={"episodes": "/e", "badge": "/b.svg", "page": "/c/1"},
        verification=values["verification"],
    )


def shape(page: str) -> list[str]:
    """Return the elements of a page without those that mark text that has no shape or was cut."""
    return [tag for tag, _ in Elements(page).elements if tag not in {"bdi", "span", "time"}]


def require_text(page: str, elements: Elements | None = None) -> None:
    found = elements or Elements(page)
    assert [tag for tag, names in found.elements if names.get("id") == "planted"] == []
    for tag, names in found.elements:
        assert not [name for name in names if name.startswith("on") or name == "style"], (
            tag,
            names,
        )
    assert "1337" not in found.text
    # What turns the direction of text, or has no shape, stands on no page as itself.
    assert not {"\u202e", "\u2066", "\u200f"} & set(page)


@pytest.fixture(scope="module")
def honest() -> dict[str, Any]:
    return values_of("product_observer_v1")


@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_planted_in_every_field_at_once_is_text(kind: str, honest: dict[str, Any]) -> None:
    values = planted_everywhere(honest, PLANTED[kind])
    for worth in (WORTH, UNVERIFIED):
        page = page_of(values, worth)
        for rendered in (render_certificate(page), render_report(page)):
            require_text(rendered)
        badge = render_badge(page.certificate, worth)
        assert {one.tag.rpartition("}")[2] for one in ET.fromstring(badge).iter()} == {  # noqa: S314 - ours
            *("svg", "title", "rect", "path", "text")
        }
        assert not {"\u202e", "\u2066", "\u200f"} & set(badge)


@pytest.mark.parametrize("kind", ["script", "image", "bidi", "null"])
def test_what_is_planted_in_any_one_field_changes_no_element(
    kind: str, honest: dict[str, Any]
) -> None:
    # One page for the fields of each level: a field alone must not break what the others show.
    paths = [path for path in strings(honest) if path[0] in {"template", "vouching", "episode"}]
    shown = shape(render_certificate(page_of(honest)))
    for path in paths[-12:]:
        values = deepcopy(honest)
        holder: Any = values
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = PLANTED[kind]
        rendered = render_certificate(page_of(values))
        require_text(rendered)
        if PLANTED[kind] is not None:
            assert shape(rendered) == shown, path


def test_a_name_of_a_criterion_is_text(honest: dict[str, Any]) -> None:
    name = str(PLANTED["image"])
    values = json.loads(json.dumps(honest).replace("source_fidelity", json.dumps(name)[1:-1]))
    rendered = render_certificate(page_of(values))
    require_text(rendered)
    assert name in Elements(rendered).text


def test_a_text_of_white_space_alone_is_seen() -> None:
    """A link to a construct with such a name had none."""
    assert plain_text(" \n") == "[U+0020]\n"
    assert ">U+00A0<" in isolated_text("\N{NO-BREAK SPACE}")
    assert [plain_text(one) for one in ("", " a ", "a\n")] == ["", " a ", "a\n"]
