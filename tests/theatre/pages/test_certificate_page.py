"""The page and the badge say what the certificate says, and never more."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.sealed_evidence import sealed_document
from tests.theatre.pages.test_hostile_text import WORTH, Elements, page_of, values_of
from theatre.engine.bundle_check import Verdict
from theatre.engine.tier_assigner import CertificateStatus, EffectiveTier, VerificationTier
from theatre.pages import wording
from theatre.pages.badge import render_badge
from theatre.pages.certificate_page import (
    MOST_ON_PAGE,
    TEXT_BYTES,
    CertificatePage,
    EpisodeLine,
    IssuersWord,
    Vouching,
    choose_episodes,
    describe_value,
    render_certificate,
    render_report,
    standing_of,
)

PAGE = Path(__file__).parents[3] / "docs" / "certificate.md"
UNVERIFIED = VerificationTier.UNVERIFIED


def worth(**changes: Any) -> EffectiveTier:  # noqa: ANN401 - fields of the value
    return WORTH._replace(**changes)


def said(page: CertificatePage) -> str:
    return " ".join(Elements(render_certificate(page)).text.split())


def lines(count: int, failures: frozenset[int] = frozenset()) -> Iterator[EpisodeLine]:
    for seq in range(1, count + 1):
        yield EpisodeLine(
            seq=seq,
            episode_id=f"episode-{seq}",
            outcome="missing" if seq in failures else "scored",
            error="timeout" if seq in failures else None,
            composite=0 if seq in failures else seq / count,
            scores={"right": 0 if seq in failures else 1},
            asked=describe_value("é&" * 500, most=TEXT_BYTES),
            expected=describe_value('"' * 500, most=TEXT_BYTES),
            answered=describe_value({"x": "x" * 500}, most=TEXT_BYTES),
        )


@pytest.fixture(scope="module")
def observer() -> CertificatePage:
    return page_of(values_of("product_observer_v1"))


def test_the_verdict_stands_first_with_score_n_interval_tier_and_its_end(
    observer: CertificatePage,
) -> None:
    verdict = said(observer).partition("In short")[0]
    assert "observer reached 47 % of the possible score over 3 criteria, in 163 episodes" in verdict
    assert "(95 % interval: 42 to 52 %)" in verdict
    assert "BACKTESTED until 26 February 2027. Signed and logged, run 1 of 1." in verdict
    # What limits it stands next to it.
    assert "163 of 163 questions hold their own answer, word for word" in verdict
    assert "5 things are missing for PROVEN" in verdict


def test_one_expectation_is_no_claim_that_saying_it_scores() -> None:
    # A runner computes what is compared with it: the best answer without any work has 0 %.
    verdict = said(page_of(values_of("product_axion_pseudo_v1")))
    said_so = "One answer is expected for act_binding wherever any is: saying it may always do"
    assert said_so in verdict
    assert "On p3_audit_integrity an answer without any work does as well" in verdict


@pytest.mark.parametrize("method", wording.METHODS)
def test_how_an_interval_was_made_is_never_cut(method: str) -> None:
    values = values_of("product_observer_v1")
    values["certificate"]["score_intervals"]["composite_score"]["method"] = method
    assert f"to 0.516, {wording.METHODS[method]})." in said(page_of(values))


@pytest.mark.parametrize(
    ("changes", "verdict", "kind", "words"),
    [
        ({}, Verdict.LOGGED, "good", "BACKTESTED"),
        ({}, Verdict.VALID, "good", "BACKTESTED"),
        ({}, Verdict.CONSISTENT, "warn", "BACKTESTED"),
        ({}, None, "warn", "BACKTESTED"),
        ({}, Verdict.NOT_VALID, "bad", "NOT VALID"),
        ({"tier": UNVERIFIED}, Verdict.LOGGED, "warn", "UNVERIFIED"),
        ({"tier": UNVERIFIED, "issued_tier": UNVERIFIED}, Verdict.LOGGED, "warn", "UNVERIFIED"),
        ({"tier": UNVERIFIED, "reasons": ("dispute-open",)}, Verdict.LOGGED, "bad", "DISPUTED"),
        ({"status": CertificateStatus.EXPIRED}, Verdict.LOGGED, "bad", "EXPIRED"),
        ({"status": CertificateStatus.REVOKED}, Verdict.LOGGED, "bad", "REVOKED"),
    ],
)
def test_what_does_not_stand_does_not_look_good(
    observer: CertificatePage,
    changes: dict[str, Any],
    verdict: Verdict | None,
    kind: str,
    words: str,
) -> None:
    standing = standing_of(worth(**changes), Vouching(verdict=verdict))
    assert (standing.kind, standing.words) == (kind, words)
    page = replace(observer, worth=worth(**changes), vouching=Vouching(verdict=verdict))
    assert f'<section class="verdict {kind}"' in render_certificate(page)
    assert words in said(page).partition("In short")[0]


@pytest.mark.parametrize(
    ("said_of_it", "kind", "words", "why"),
    [
        (IssuersWord("5e" * 32, 17), "good", "BACKTESTED", "…, and entry 17 of its log"),
        (IssuersWord("5e" * 32, None), "warn", "BACKTESTED", "and not in its log yet"),
        (IssuersWord(None, 17, "the key is revoked"), "bad", "NOT SIGNED", "the key is revoked"),
    ],
)
def test_what_a_service_says_of_itself_is_called_its_own_word(
    observer: CertificatePage, said_of_it: IssuersWord, kind: str, words: str, why: str
) -> None:
    page = replace(observer, vouching=Vouching(issuer=said_of_it), verification={})
    assert f'<section class="verdict {kind}"' in render_certificate(page)
    verdict = said(page).partition("In short")[0]
    assert words in verdict
    assert f"{why}: its own word, which you can check" in verdict
    # A check that failed is not outweighed by what the issuer says.
    refuted = Vouching(issuer=said_of_it, verdict=Verdict.NOT_VALID)
    assert standing_of(observer.worth, refuted).words == "NOT VALID"


def test_how_right_a_measure_is_stands_with_whose_labels_say_so(observer: CertificatePage) -> None:
    share = {"value": 0.9, "low": 0.86, "high": 0.93, "method": "mover", "level": 0.95}
    named = {"by": "a second reader", "claims": 600, "raw": 0.998, "kappa": 0.998}
    measure = {
        "measure": "judge@1",
        "labelled_set": {"claims": 600, "made_by": "models of the team", "agreement": named},
        "balanced_accuracy": share, "sensitivity": share, "specificity": share, "qualified": True,
    }  # fmt: skip
    controls = {"true": {"right": 97, "asked": 100}, "false": {"right": 88, "asked": 110}}
    corrected: dict[str, Any] = {
        "value": 0.7,
        "low": 0.62,
        "high": 0.78,
        "raw": 0.66,
        "reason": None,
    }
    corrected |= {"errors_from": "controls", "controls": controls}
    few = {"value": None, "reason": "fewer than 100 items", "controls": None}
    members = {
        "qualification": {"told": measure, "broken": None, "weak": measure | {"qualified": False}},
        "corrected_scores": {"told": corrected, "broken": few, "weak": few, "unsaid": few},
    }
    words = said(replace(observer, certificate={**observer.certificate, **members}))
    assert "judge@1 was asked about 600 claims whose truth is known." in words
    assert "right 90 % of the time on average of both (95 % interval: 86 to 93 %;" in words
    assert "The claims and labels were made by models of the team; a second reader" in words
    assert "asked about 210 more claims of known truth, and was right about 97 of 100 true" in words
    assert "Corrected for its errors on these the score is 70 % (62 to 78 %), not 66 %." in words
    assert "unsaid: nothing was said beforehand of how right it is." in words
    assert "broken: the file that should show it cannot be read." in words
    assert "That carries no tier." in words
    assert "The score cannot be corrected for its errors: fewer than 100 items." in words


def test_what_the_calls_took_is_said_in_tokens_money_and_quantiles(
    observer: CertificatePage,
) -> None:
    usage: dict[str, Any] = {
        "calls": 1200,
        "calls_counted": 1199,
        "input_tokens": 45000,
        "output_tokens": 5100,
    }
    usage |= {"cost_usd": 0.0981, "latency_ms": {"p50": 120, "p95": 1300, "p99": 2100}}
    words = said(replace(observer, certificate={**observer.certificate, "usage": usage}))
    took = "1,200 calls, 45,000 tokens in, 5,100 out, 0.0981 US dollars; latency p50 120 ms, "
    assert f"{took}p95 1,300 ms, p99 2,100 ms" in words
    usage |= {"calls_counted": 0, "cost_usd": None}
    words = said(replace(observer, certificate={**observer.certificate, "usage": usage}))
    assert "1,200 calls, no tokens counted; latency p50 120 ms" in words


def test_each_code_that_the_document_names_has_words() -> None:
    text = PAGE.read_text(encoding="utf-8")
    caps, findings = (
        {
            code.partition(":")[0]
            for row in re.findall(r"^\| (`[a-z].*?) \|", part, re.MULTILINE)
            for code in re.findall(r"`([^`]+)`", row)
        }
        for part in (
            text.partition("Codes of `caps`")[2].partition("Codes of `findings`")[0],
            text.partition("Codes of `findings`")[2].partition("\n\nA certificate under")[0],
        )
    )
    assert caps == set(wording.CAPS)
    assert findings == set(wording.FINDINGS)


def test_a_page_is_small_and_asks_no_other_host(observer: CertificatePage) -> None:
    shown = choose_episodes(lines(500), total=500, most=MOST_ON_PAGE)
    page = render_certificate(replace(observer, episodes=shown))
    assert len(page.encode()) <= 60_000
    assert "24 of 500 are listed" in " ".join(Elements(page).text.split())
    found = Elements(page).elements
    addresses = [names[key] for _, names in found for key in ("href", "src") if names.get(key)]
    assert [
        one for one in addresses if one is None or not one.startswith(("/", "#", "data:"))
    ] == []
    assert [names for _, names in found if "style" in names] == []


def test_a_report_of_a_thousand_episodes_is_one_file_that_allows_its_own_parts_alone(
    observer: CertificatePage,
) -> None:
    page = replace(observer, episodes=choose_episodes(lines(100), total=100, most=100), links={})
    content = render_report(page)
    bare = render_report(replace(page, episodes=None))
    of_a_hundred = len(content.encode()) - len(bare.encode())
    assert 10 * of_a_hundred <= 1_250_000  # the rest is for style, scripts and what may come
    assert len(bare.encode()) <= 250_000
    found = Elements(content).elements
    assert [names for _, names in found if "src" in names] == []
    (policy,) = [names["content"] for _, names in found if "http-equiv" in names]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_of_many_episodes_the_worst_and_an_even_sample_are_listed() -> None:
    failures = frozenset({7, 4999})
    shown = choose_episodes(lines(5000, failures), total=5000, most=100)
    assert [line.seq for line in shown.lines[:3]] == [7, 4999, 1]
    assert shown.every == 100
    assert len(shown.lines) == 99  # 50 and 50, one of them in both
    whole = choose_episodes(lines(50, frozenset({9})), total=50, most=50)
    assert (len(whole.lines), whole.lines[0].seq, whole.every) == (50, 9, None)


# The badge.


CERTIFICATE = sealed_document("product_observer_v1", "certificate.json")


def test_a_badge_quotes_all_that_the_wording_rule_asks_for() -> None:
    badge = render_badge(CERTIFICATE, WORTH)
    title = badge.partition("<title>")[2].partition("</title>")[0]
    for part in (
        *("BACKTESTED", "47\N{NO-BREAK SPACE}%", "n = 163", "42 to 52\N{NO-BREAK SPACE}%"),
        *("resolved 2026-11-28", "expires 2027-02-26", CERTIFICATE["commitment_hash"]),
    ):
        assert part in title
    shown = "".join(re.findall(r">([^<]+)</text>", badge))
    for part in ("BACKTESTED", "47", "42 to 52", "n = 163", "2026-11-28", "2027-02-26"):
        assert part in shown
    assert CERTIFICATE["commitment_hash"][:12] in shown
    counts = {**CERTIFICATE["episode_counts"], "refused": 60}
    badge = render_badge({**CERTIFICATE, "episode_counts": counts}, WORTH)
    assert "n = 163, 60 refused" in badge


def test_a_badge_says_where_a_trivial_answer_does_as_well() -> None:
    said = "a trivial answer does as well"
    alone = {name: CERTIFICATE["scores"][name] for name in list(CERTIFICATE["scores"])[:1]}
    (one,) = alone
    for findings, scores, words in (
        (["network-open", f"form-alone:{one}"], CERTIFICATE["scores"], None),
        ([f"baseline-meets-interval:{one}"], CERTIFICATE["scores"], f"{said} on 1 of 3"),
        ([f"interchangeable-answers:{one}"], alone, said),
    ):
        badge = render_badge({**CERTIFICATE, "findings": findings, "scores": scores}, WORTH)
        shown = re.findall(r">([^<]+)</(?:text|title)>", badge)
        assert [part.rpartition("; ")[2] for part in shown if said in part] == (
            [] if words is None else [words] * 2
        )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"reasons": ("run-older-than-90-days",)}, "The run is older than 90 days"),
        ({"reasons": ("dispute-open",)}, "A dispute about it is open"),
        ({"reasons": ("owner-not-confirmed",)}, "It was not run by the confirmed owner"),
    ],
)
def test_a_badge_whose_tier_has_lapsed_has_no_score_and_no_colour(
    changes: dict[str, Any], why: str
) -> None:
    badge = render_badge(CERTIFICATE, worth(tier=UNVERIFIED, **changes))
    assert "UNVERIFIED" in badge
    assert why in badge
    assert "47" not in re.sub("[0-9a-f]{64}", "", "".join(re.findall(r">([^<]+)<", badge)))
    assert "#1b5e9b" not in badge


def test_the_colour_of_a_badge_does_not_follow_the_score() -> None:
    def colours(score: float) -> list[str]:
        badge = render_badge({**CERTIFICATE, "composite_score": score}, WORTH)
        return re.findall(r'fill="(#[0-9a-f]{6})"', badge)

    assert colours(0.01) == colours(0.99)


def test_a_construct_without_a_certificate_has_a_badge_that_says_so() -> None:
    assert "UNVERIFIED" in render_badge(None, None)


def test_the_end_of_a_tier_is_in_the_page_for_who_opens_it_later(observer: CertificatePage) -> None:
    (verdict,) = [
        names for _, names in Elements(render_report(observer)).elements if "data-expires" in names
    ]
    assert verdict["data-expires"] == CERTIFICATE["expires_at"]
    ended = datetime(2027, 3, 1, tzinfo=UTC)
    lapsed = worth(tier=UNVERIFIED, status=CertificateStatus.EXPIRED, as_of=ended)
    found = Elements(render_report(replace(observer, worth=lapsed))).elements
    assert [names for _, names in found if "data-expires" in names] == []
