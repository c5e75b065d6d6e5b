"""Copies of a question are one question, and what anybody could answer is shown as that."""

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.forged_bundle import (
    Effort,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.forked_echelon import forked
from tests.theatre.runs import (
    EXPECTED,
    LATE,
    PILOT,
    SANITISED,
    TEMPLATE,
    Finished,
    ScriptedAdapter,
    answer_as_asked,
    pilot_stage,
    with_changes,
)
from theatre.api.template_files import validate_template
from theatre.engine.bundle_check import data_audit
from theatre.engine.bundle_check.data_audit import DataAudit as CheckedAudit
from theatre.engine.bundle_check.echoes import copied_from, copies_among
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.models import GroundTruthEpisode
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import (
    AuditedEpisode,
    BaselineScores,
    DataAudit,
    DrawnEpisodes,
    TheatreScoringProvider,
    baselines,
    wilson_interval,
)
from theatre.engine.scoring.echoes import Echoes
from theatre.engine.templates import view_template
from theatre.files.datasets import DatasetRoots
from theatre.files.evidence_preview import preview_evidence
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_episode_runners, load_scorers

FIXTURES = REPOSITORY / "fixtures"
SCORERS = load_scorers()
COPIES = 60
CAPS = [
    "distinct-inputs-below-50",
    "distinct-per-criterion-below-30:colour",
    "distinct-per-criterion-below-30:recall",
]


def asked(*inputs: dict[str, Any], expected: Sequence[JsonObject] = ()) -> list[JsonObject]:
    """Return an episode for each input."""
    return [
        {
            "episode_id": f"pilot-{seq}",
            "input_data": given_,
            "expected_output": expected[seq - 1] if expected else {**EXPECTED},
        }
        for seq, given_ in enumerate(inputs, start=1)
    ]


# --- sixty copies of one question --------------------------------------------------------------


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    records = asked(*[{"question": "Which colour has a ripe tomato?"}] * COPIES)
    return pilot_stage(tmp_path_factory.mktemp("copies"), records).run(ScriptedAdapter())


def test_sixty_copies_of_one_question_are_one_question(copies: Finished) -> None:
    certificate, tier = copies.document("certificate.json"), copies.document("tier.json")
    assert (certificate["verification_tier"], certificate["caps"]) == ("UNVERIFIED", CAPS)
    assert certificate["scores"] == {"colour": 1, "recall": 1}
    assessment: Any = tier["assessment"]
    seen = {one["code"]: one["seen"] for one in assessment["unmet"] if one["code"] in CAPS}
    assert seen == dict.fromkeys(CAPS, "1")
    assert certificate["data_audit"] == copies.document("scores/data_audit.json")
    assert certificate["data_audit"] == {
        "episodes": COPIES,
        "distinct_inputs": 1,
        "distinct_scored_inputs": 1,
        "near_duplicates": 0,
        "answers_in_inputs": 0,
        "clusters": 0,
        "criteria": {
            name: {"distinct_inputs": 1, "expectations": 1, "majority_share": 1}
            for name in ("colour", "recall")
        },
    }


def test_the_check_and_the_file_without_packages_agree_about_the_copies(copies: Finished) -> None:
    assert check(copies.bundle).consistent
    assert not any(verify(copies.bundle, now=LATE).problems.values())


def test_a_tier_for_copies_is_refused(copies: Finished, tmp_path: Path) -> None:
    """With and without a data audit that lies, too."""
    files = load(copies.bundle)
    tier, certificate = document(files, "tier.json"), document(files, "certificate.json")
    audit: Any = document(files, "scores/data_audit.json")
    facts: Any = tier["facts"]
    facts |= {
        "distinct_inputs": COPIES,
        "criterion_distinct_inputs": {"colour": COPIES, "recall": COPIES},
    }
    assessment: Any = tier["assessment"]
    assessment["unmet"] = [one for one in assessment["unmet"] if one["code"] not in CAPS]
    assessment |= {
        "tier": "BACKTESTED",
        "caps": [one["code"] for one in assessment["unmet"]],
        "expires_at": "2027-02-19T12:00:00.000000Z",
    }
    shown = {"verification_tier": "tier", "caps": "caps", "expires_at": "expires_at"}
    certificate |= {name: assessment[member] for name, member in shown.items()}
    forged = with_document(with_document(files, "tier.json", tier), "certificate.json", certificate)
    forged = resealed(forged, Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(forged, tmp_path / "tier"))) == {"tier"}
    failed = verify(tmp_path / "tier", now=LATE).problems
    assert {name for name, found in failed.items() if found} == {"tier"}

    audit |= {"distinct_inputs": COPIES, "distinct_scored_inputs": COPIES}
    certificate["data_audit"] = audit
    forged = with_document(forged, "scores/data_audit.json", audit)
    forged = resealed(with_document(forged, "certificate.json", certificate), Effort.CERTIFIED_HASH)
    failed_here = {"data-audit", "tier", "certificate-fields"}
    assert failed_ids(check(store(forged, tmp_path / "audit"))) == failed_here
    failed = verify(tmp_path / "audit", now=LATE).problems
    assert {name for name, found in failed.items() if found} == {"data-audit", "tier"}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("criteria", "colour", "most_frequent", "score"), 0),
        (("criteria", "colour", "copied"), None),
        (("criteria", "recall", "not_applicable"), "human"),
        (("episodes",), 59),
    ],
)
def test_baselines_that_were_not_scored_are_refused(
    copies: Finished, tmp_path: Path, place: tuple[str, ...], value: JsonValue
) -> None:
    files = load(copies.bundle)
    baselines: Any = document(files, "scores/baselines.json")
    holder = baselines
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value
    certificate = document(files, "certificate.json") | {"baselines": baselines}
    forged = with_document(files, "scores/baselines.json", baselines)
    forged = with_document(forged, "certificate.json", certificate)
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "forged"))
    assert failed_ids(report) == {"baselines", "certificate-fields"}


@pytest.mark.parametrize(
    ("method", "low", "high", "said"),
    [
        ("bca", 0.9, 0.1, "copied: expected bounds 0 ≤ low ≤ high ≤ 1"),
        ("bca", False, True, "copied: expected bounds 0 ≤ low ≤ high ≤ 1"),
        ("undefined", 0.1, 0.9, "copied/interval: expected b'[null,null]', got b'[0.1,0.9]'"),
    ],
)
def test_an_interval_that_no_method_gives_is_refused_without_a_scorer(
    copies: Finished, tmp_path: Path, method: str, low: JsonValue, high: JsonValue, said: str
) -> None:
    files = load(copies.bundle)
    baselines: Any = document(files, "scores/baselines.json")
    interval = {"method": method, "level": 0.95, "low": low, "high": high}
    baselines["criteria"]["colour"]["copied"]["interval"] = interval
    certificate = document(files, "certificate.json") | {"baselines": baselines}
    forged = with_document(files, "scores/baselines.json", baselines)
    forged = with_document(forged, "certificate.json", certificate)
    folder = store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "forged")
    failed = verify(folder, now=LATE).problems
    assert {name: found for name, found in failed.items() if found} == {
        "baselines": [f"baselines.json/criteria/colour/{said}"]
    }


@pytest.mark.parametrize(
    "code", ["one-expectation:colour", "baseline-meets-interval:recall", "near-duplicates"]
)
def test_a_finding_more_or_less_is_refused(copies: Finished, tmp_path: Path, code: str) -> None:
    files = load(copies.bundle)
    certificate: Any = document(files, "certificate.json")
    certificate["findings"] = sorted({*certificate["findings"]} ^ {code})
    forged = with_document(files, "certificate.json", certificate)
    folder = store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "forged")
    assert failed_ids(check(folder)) == {"certificate-fields"}
    failed = verify(folder, now=LATE).problems
    assert {name for name, found in failed.items() if found} == {"certificate-fields"}


def test_the_most_frequent_answer_is_not_the_first_one_that_was_expected(tmp_path: Path) -> None:
    colours = ("red", "blue", "green", "blue", "green")
    records = asked(
        *({"question": f"Colour number {n}?"} for n in range(5)),
        expected=[{"colour": colour, "recall": 0.5} for colour in colours],
    )
    finished = pilot_stage(tmp_path, records).run(ScriptedAdapter())
    assert check(finished.bundle).consistent
    scored: Any = finished.document("scores/baselines.json")["criteria"]
    names = ("most_frequent", "other_episode")
    # Of two that are as frequent the first; and in the place of the first episode's the last one.
    assert [scored["colour"][name]["score"] for name in names] == [0.4, 0]


def test_validate_says_it_before_anything_is_committed(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, asked(*[{"question": "Which colour?"}] * COPIES))
    (tmp_path / "template.json").write_bytes(canonical_bytes(stage.template))
    told = forked("theatre", "validate", tmp_path / "template.json", "--json", home=tmp_path / "h")
    evidence = told.document["evidence"]
    assert (told.code, told.document["valid"]) == (0, True)
    assert evidence["caps"] == [f"{code}: 1" for code in CAPS]
    assert evidence["findings"] == ["one-expectation:colour", "one-expectation:recall"]
    assert evidence["data_audit"]["distinct_inputs"] == 1
    assert evidence["baselines"]["criteria"]["colour"]["most_frequent"]["score"] == 1
    text = forked("theatre", "validate", tmp_path / "template.json", home=tmp_path / "h")
    assert text.stdout.splitlines()[1:] == [
        "questions    60: 1 distinct",
        "finding      one-expectation:colour",
        "finding      one-expectation:recall",
        "criterion  distinct  expectations  majority  best trivial answer",
        "---------  --------  ------------  --------  ---------------------",
        "colour     1         1             1.000     1.000 (most_frequent)",
        "recall     1         1             1.000     1.000 (most_frequent)",
        *(f"would cap    {code}: 1" for code in CAPS),
        "valid, but cannot run here: construct-version",
    ]


def test_data_that_are_not_the_committed_ones_are_not_previewed(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, asked({"question": "Which colour?"}))
    (tmp_path / "template.json").write_bytes(canonical_bytes(stage.template))
    (tmp_path / "truth.jsonl").write_bytes(b"\n")
    validated = forked(
        "theatre", "validate", tmp_path / "template.json", "--json", home=tmp_path / "h"
    )
    warning, _ = validated.document["warnings"]
    assert (validated.document["evidence"], warning["rule"]) == (None, "no-evidence-preview")
    assert warning["detail"].startswith(
        "The dataset changed since the commitment: expected truth.jsonl"
    )


def test_questions_that_differ_are_counted_and_cap_nothing(tmp_path: Path) -> None:
    records = asked(*({"question": f"Colour number {n}?", "n": n} for n in range(51)))
    finished = pilot_stage(tmp_path, records).run(ScriptedAdapter())
    certificate: Any = finished.document("certificate.json")
    assert certificate["verification_tier"] == "BACKTESTED"
    # Only their numbers differ: a warning, no cap.
    assert "near-duplicates" in certificate["findings"]
    audit = certificate["data_audit"]
    assert (audit["distinct_inputs"], audit["near_duplicates"]) == (51, 50)


def test_what_is_counted_is_the_sanitised_text(tmp_path: Path) -> None:
    records = asked({"q": "a ripe\u200b tomato"}, {"q": "a ripe tomato"}, {"q": "grass\u200b"})
    records[2]["expected_output"] = {"colour": "grass", "recall": 0.5}
    finished = pilot_stage(tmp_path, records, changes=SANITISED).run(ScriptedAdapter())
    audit, baselines = (
        cast("dict[str, Any]", finished.document(f"scores/{name}.json"))
        for name in ("data_audit", "baselines")
    )
    assert (audit["episodes"], audit["distinct_inputs"]) == (3, 2)
    assert baselines["criteria"]["colour"]["copied"] == trivial(1, 3)
    assert check(finished.bundle).consistent
    assert not any(verify(finished.bundle, now=LATE).problems.values())


# --- the data audit ----------------------------------------------------------------------------


def audited(*episodes: tuple[JsonObject, JsonObject]) -> JsonObject:
    """Return the audit of inputs with what is expected of each."""
    audit = DataAudit(["colour"])
    for sent, truth in episodes:
        audit.add(
            AuditedEpisode(
                sent=sent,
                truths=[truth],
                expectations={"colour": truth},
                scored=True,
                counted={"colour"},
                cluster_key=None,
            )
        )
    return audit.as_document()


LONG = ["a long answer number one", "another answer, quite other", "the third one of answers"]


@pytest.mark.parametrize(
    ("episodes", "given_away"),
    [
        ([({"text": f"Well: {answer}!"}, {"colour": answer}) for answer in LONG], 3),
        ([({"text": ["x", {"deep": LONG[0]}]}, {"a": [{"b": LONG[0]}]})], 1),
        ([({"text": "seven77 in it"}, {"colour": "seven77"})], 0),
        ([({"text": "eight888 in it"}, {"colour": "eight888"})], 1),
        ([({"eight888": 1}, {"colour": "eight888"})], 0),
        ([({"text": "eight", "more": "888"}, {"colour": "eight888"})], 0),
        # A label that comes again is a choice that is offered.
        ([({"text": f"{n}: offside?"}, {"colour": "offside?"}) for n in range(2)], 0),
        # The twenty most repeated ones are; a rarer one beside them is not.
        (
            [
                ({"text": f"{n} label-{n:04d}"}, {"colour": f"label-{n:04d}"})
                for n in range(21)
                for _ in range(2 if n == 20 else 3)
            ],
            2,
        ),
    ],
)
def test_answers_that_inputs_give_away_are_counted(
    episodes: list[tuple[JsonObject, JsonObject]], given_away: int
) -> None:
    assert audited(*episodes)["answers_in_inputs"] == given_away


@pytest.mark.parametrize(
    ("inputs", "distinct", "alike"),
    [
        ([{"q": "One, two"}, {"q": "one TWO?"}, {"q": "one two 3"}], 3, 2),
        ([{"q": "one", "n": 1}, {"q": "one", "n": 2}], 2, 1),
        ([{"q": "1 + 2"}, {"q": "1 + 3"}], 2, 0),
        ([{"n": 1}, {"n": 2}, {"n": 2}], 2, 0),
        ([{"a": "x", "b": "y"}, {"b": "y", "a": "x"}], 1, 0),
        ([{"q": "one"}, {"q": "o\u200bne"}, {"q": "on\xade"}, {"q": "o\x00\u3164ne"}], 4, 3),
        ([{"q": "Straße"}, {"q": "STRASSE 5"}, {"q": "Strass e"}], 3, 1),
    ],
)
def test_inputs_that_are_nearly_alike_are_counted_apart_from_the_same_ones(
    inputs: list[JsonObject], distinct: int, alike: int
) -> None:
    audit = audited(*((sent, {}) for sent in inputs))
    assert (audit["distinct_inputs"], audit["near_duplicates"]) == (distinct, alike)


TEXTS = st.sampled_from(["eight888", "eight888 8", "Straße 1", "a b c", "a, B! c", "12", ""])
VALUES = st.recursive(
    TEXTS | st.integers(0, 2) | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=2)
EPISODES = st.tuples(
    OBJECTS,
    OBJECTS | st.none(),
    st.sampled_from(["scored", "unscored", "missing", "excluded", "not_run"]),
    st.tuples(*[st.none() | st.just(0.5)] * 2),
    st.none() | st.sampled_from("ab"),
)


GIVEN_AWAY = ({"q": "eight888"}, {"a": "eight888"}, "scored", (0.5, None), None)


@settings(deadline=None)
@example(episodes=[GIVEN_AWAY])
@example(episodes=[GIVEN_AWAY, GIVEN_AWAY])
@given(episodes=st.lists(EPISODES, max_size=8))
def test_engine_and_check_count_the_same(episodes: list[Any]) -> None:
    engine, checked = DataAudit(["a", "b"]), CheckedAudit(["a", "b"], canonical_bytes)
    for sent, truth, outcome, scores, cluster in episodes:
        held: dict[str, JsonValue] = {"a": truth, "b": "eight888"}
        line = {"outcome": outcome, "scores": dict(zip("ab", scores, strict=True))}
        question = checked.question(
            sent=sent, truths=[truth], expectations=held, cluster_key=cluster
        )
        checked.add(question, line)
        if outcome != "not_run":
            engine.add(
                AuditedEpisode(
                    sent=sent,
                    truths=[] if truth is None else [truth],
                    expectations=held,
                    scored=outcome == "scored",
                    counted={name for name, one in line["scores"].items() if one is not None},
                    cluster_key=cluster,
                )
            )
    assert checked.document() == engine.as_document()


# --- the baselines -----------------------------------------------------------------------------


def trivial(right: int, number: int = 4) -> JsonObject:
    return {
        "score": round(right / number, 9),
        "n": number,
        "interval": wilson_interval(right, number),
    }


def test_baselines_are_scored_by_the_committed_scorers(tmp_path: Path) -> None:
    expected: list[JsonObject] = [
        {"colour": "red", "recall": 0.5},
        {"colour": "red", "recall": 0.5},
        {"colour": "blue", "recall": 0.9},
        {"colour": "red", "recall": 0.5},
    ]
    # The first input has the member that is asked for, the last one no other text than the answer.
    inputs: list[JsonObject] = [
        {"text": "one", "colour": "red"},
        {"text": "two"},
        {"text": "three"},
        {"text": "red"},
    ]
    finished = pilot_stage(tmp_path, asked(*inputs, expected=expected)).run(ScriptedAdapter())
    certificate = finished.document("certificate.json")
    assert certificate["baselines"] == finished.document("scores/baselines.json")
    assert certificate["baselines"] == {
        "episodes": 4,
        "criteria": {
            "colour": {
                "not_applicable": None,
                "empty": trivial(0),
                "copied": trivial(2),
                "most_frequent": trivial(3),
                "other_episode": trivial(2),
            },
            "recall": {
                "not_applicable": None,
                "empty": trivial(0),
                "copied": trivial(0),
                "most_frequent": trivial(3),
                "other_episode": trivial(2),
            },
        },
    }
    # It answers red and 0.5 whatever it is asked, as the most frequent expectation does.
    assert certificate["findings"] == [
        "baseline-meets-interval:colour",
        "baseline-meets-interval:recall",
        "within-item-variance-unknown",
    ]


def test_a_baseline_below_the_interval_is_no_finding(tmp_path: Path) -> None:
    colours = [f"colour {n}" for n in range(60)]
    records = asked(
        *(
            {"question": "Which?", "answer": {"output_data": {"colour": one, "recall": 0.5}}}
            for one in colours
        ),
        expected=[{"colour": one, "recall": 0.5} for one in colours],
    )
    stage = pilot_stage(tmp_path, records)
    finished = stage.run(ScriptedAdapter(answer_as_asked))
    certificate = finished.document("certificate.json")
    findings: Any = certificate["findings"]
    assert [one for one in findings if one.startswith("baseline")] == [
        "baseline-meets-interval:recall"
    ]


def scoring_colours_by(scorer: str) -> dict[str, JsonValue]:
    """Return what a template needs for a scorer of expected colours."""
    params: JsonObject = {"field": "colour", "expected": "colour"}
    return {
        "/scoring/criteria_scorers/colour": {"scorer": scorer, "params": params},
        "/scorer_pins": {scorer: "1", "numeric_tolerance": "1"},
    }


@pytest.mark.parametrize(("total", "is_able"), [(60, False), (31, False), (30, False), (60, True)])
def test_answers_that_do_as_well_for_other_questions_are_found(
    tmp_path: Path, total: int, *, is_able: bool
) -> None:
    """All words, in another order each time; or, of a construct that is able, the right one."""
    words = [f"word{n:02}" for n in range(total)]

    def said(number: int) -> JsonObject:
        if number % 11 == 0:
            return {"status": "refused" if number % 2 else "error"}
        all_ = [*words[number:], *words[:number]]
        return {"output_data": {"colour": " ".join(all_[:1] if is_able else all_)}}

    # The construct knows what it says: an answer that stood in its question would be handed back.
    records = asked(
        *({"question": f"Which {n}?"} for n in range(total)),
        expected=[{"colour": [word]} for word in words],
    )
    answers = {f"Which {n}?": said(n) for n in range(total)}
    stage = pilot_stage(tmp_path, records, changes=scoring_colours_by("contains_terms"))
    finished = stage.run(ScriptedAdapter(lambda one: answers[str(one.input_data["question"])]))
    certificate: Any = finished.document("certificate.json")
    assert certificate["scores"]["colour"] > 0.9
    code = "interchangeable-answers:colour"
    # A refusal is in no mean, and is dealt to no other question: of 30 there are 29 to deal.
    assert (code in certificate["findings"]) is (not is_able and total > 30)
    assert failed_ids(check(finished.bundle)) == set()
    assert not any(verify(finished.bundle, now=LATE).problems.values())
    certificate["findings"] = sorted({*certificate["findings"]} ^ {code})
    forged = with_document(load(finished.bundle), "certificate.json", certificate)
    folder = store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "forged")
    assert failed_ids(check(folder)) == {"certificate-fields"}
    # No scorer is in the file without packages: its page says that it takes this one as it stands.
    assert not any(verify(folder, now=LATE).problems.values())


def test_a_criterion_that_few_episodes_have_is_drawn_and_dealt_on_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "MAX_EPISODES", 40)
    monkeypatch.setattr(data_audit, "MOST_EPISODES", 40)
    words = [f"word{n:02}" for n in range(40)]
    all_words: JsonObject = {"output_data": {"colour": " ".join(words)}}
    records = asked(
        *({"question": f"Which {n}?", "answer": all_words} for n in range(40)),
        *(
            {"question": f"How many {n}?", "answer": {"output_data": {"recall": 0.5}}}
            for n in range(80)
        ),
        expected=[{"colour": [words[n]]} if n < 40 else {"recall": 0.5} for n in range(120)],
    )
    stage = pilot_stage(tmp_path, records, changes=scoring_colours_by("contains_terms"))
    finished = stage.run(ScriptedAdapter(answer_as_asked))
    made: Any = finished.document("scores/baselines.json")
    assert made["episodes"] == 80
    assert {one["empty"]["n"] for one in made["criteria"].values()} == {40}
    findings: Any = finished.document("certificate.json")["findings"]
    assert "interchangeable-answers:colour" in findings
    assert failed_ids(check(finished.bundle)) == set()
    assert not any(verify(finished.bundle, now=LATE).problems.values())


small = st.sampled_from(["a", "b", "", 0, 1, 1.0, True, None])
values = st.recursive(
    small,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abz*"), below),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abz"), values, max_size=3)


@settings(max_examples=60)
@given(st.lists(st.tuples(objects, objects), min_size=2, max_size=5))
@example([({"a": ["x", "y"]}, {"b": "y"}), ({"a": ["z"]}, {"b": "z"})])
@example([({"z": [{"a": 1}, {"a": 2}]}, {"b": [1, 2]}), ({"z": [{"a": 3}]}, {"b": [3]})])
def test_engine_and_check_copy_the_same(pairs: list[tuple[JsonObject, JsonObject]]) -> None:
    """Each by its own code."""
    (asked, said), (other, others_answer) = pairs[:2]
    echoes = Echoes("c", [(one, {"c": said_}, "b") for one, said_ in pairs], is_first=True)
    copies = copies_among((one, said_, frozenset("b")) for one, said_ in pairs)
    assert bool(echoes) >= (copied_from(other, said, asked, copies) != said)
    moved = echoes.moved({"c": said}, asked, other, {"c": others_answer})["c"]
    assert canonical_bytes(moved) == canonical_bytes(copied_from(other, said, asked, copies))


def test_what_is_copied_is_found_at_its_place_also_from_the_end_and_as_a_column() -> None:
    pairs: list[tuple[JsonObject, JsonObject]] = [
        (
            {"read": [*range(n, n * n)], "shown": [{"id": str(one)} for one in range(n)]},
            {"last": n * n - 1, "ids": [str(one) for one in range(n)], "same": "red"},
        )
        for n in range(2, 6)
    ]
    (asked, said), (other, right) = pairs[0], pairs[3]
    echoes = Echoes("c", [(one, {"c": answer}, ()) for one, answer in pairs], is_first=True)
    assert echoes.moved({"c": said}, asked, other, {}) == {"c": right}
    constant: JsonObject = {"same": "red"}
    # Where the same is said to everything, the question that holds it by chance is not copied.
    alike: list[tuple[JsonObject, JsonObject]]
    alike = [({"a": "red"}, constant), ({"a": "blue"}, constant), ({"b": "red"}, constant)]
    assert not Echoes("c", [(one, {"c": answer}, ()) for one, answer in alike], is_first=True)
    copies = copies_among((one, answer, frozenset[str]()) for one, answer in alike)
    assert copied_from(alike[1][0], constant, alike[0][0], copies) == constant
    # Each value for itself: that most answers say `none` does not hide that others are copied.
    mixed: list[tuple[JsonObject, JsonObject]] = [
        ({"hint": f"h{n}"}, {"said": "none" if n < 5 else f"h{n}"}) for n in range(9)
    ]
    echoes = Echoes("c", [(one, {"c": answer}, ()) for one, answer in mixed], is_first=True)
    moved = [echoes.moved({"c": one}, asked, {"hint": "x"}, {})["c"] for asked, one in mixed]
    assert moved == [{"said": "none"}] * 5 + [{"said": "x"}] * 4


def test_members_that_no_scorer_asks_for_take_no_place_of_those_that_it_does() -> None:
    padding: JsonObject = {f"a{number:03}": 0 for number in range(150)}
    alike: list[tuple[JsonObject, JsonObject]] = [
        ({"id": f"no {n}"}, {**padding, "colour": {**padding, "id": f"no {n}"}}) for n in range(3)
    ]
    for wanted in (frozenset({"colour", "id"}), frozenset[str]()):
        echoes = Echoes("c", [(one, {"c": said}, wanted) for one, said in alike], is_first=True)
        copies = copies_among((one, said, wanted) for one, said in alike)
        assert bool(echoes) is bool(copies.pairs) is bool(wanted)


def test_what_came_before_in_a_chain_is_part_of_the_question() -> None:
    answered: list[tuple[JsonObject, dict[str, JsonObject], str]] = [
        ({"seq": n}, {"first": {"hue": f"hue {n}"}, "last": {"colour": f"hue {n}"}}, "")
        for n in range(3)
    ]
    (sent, hops, _), (other, others, _) = answered[:2]
    echoes = Echoes("last", answered, is_first=False)
    assert echoes.moved(hops, sent, other, others)["last"] == others["last"]
    # A play has no output of a second construct: there is nothing to move.
    assert echoes.moved({"first": {}}, sent, other, others) == {"first": {}}
    assert not Echoes("first", answered, is_first=True)


def test_where_null_is_right_answers_are_dealt_to_such_questions_too(tmp_path: Path) -> None:
    """Who finds each of thirty faults among sixty parts is no constant, though its word is one."""
    right: list[JsonValue] = [None if number % 2 else "fault" for number in range(60)]
    records = asked(
        *({"part": f"Part {number}"} for number in range(60)),
        expected=[{"colour": one, "recall": 0.5} for one in right],
    )
    known_ = dict(zip((f"Part {number}" for number in range(60)), right, strict=True))
    finished = pilot_stage(tmp_path, records).run(
        ScriptedAdapter(
            lambda one: {"output_data": {"colour": known_[str(one.input_data["part"])]}}
        )
    )
    certificate: Any = finished.document("certificate.json")
    assert certificate["scores"]["colour"] == 1
    assert "interchangeable-answers:colour" not in certificate["findings"]
    assert failed_ids(check(finished.bundle)) == set()


def test_who_takes_every_label_for_right_is_met_by_the_first_of_them(tmp_path: Path) -> None:
    labels = ["red", "green", "blue"]
    records = asked(
        *({"question": f"Which of {n} houses?"} for n in range(60)),
        expected=[
            {"colour": [*labels[n % 3 :], *labels[: n % 3]], "recall": 0.9} for n in range(60)
        ],
    )
    stage = pilot_stage(tmp_path, records, changes=scoring_colours_by("text_match"))
    finished = stage.run(ScriptedAdapter())
    findings: Any = finished.document("certificate.json")["findings"]
    scores: Any = finished.document("certificate.json")["scores"]
    assert scores["colour"] == 1
    assert "baseline-meets-interval:colour" in findings
    assert failed_ids(check(finished.bundle)) == set()


def test_a_bound_that_is_no_number_is_refused_in_words(copies: Finished, tmp_path: Path) -> None:
    files = load(copies.bundle)
    aggregate: Any = document(files, "scores/aggregate.json")
    aggregate["score_intervals"]["recall"]["low"] = "0.9"
    forged = with_document(files, "scores/aggregate.json", aggregate)
    folder = store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "forged")
    assert {"aggregate", "certificate-fields"} <= failed_ids(check(folder))
    assert verify(folder, now=LATE).word == "not valid"


def test_without_an_interval_a_baseline_has_to_stay_below_the_score(tmp_path: Path) -> None:
    finished = pilot_stage(tmp_path, asked({"question": "Which?"})).run(ScriptedAdapter())
    certificate: Any = finished.document("certificate.json")
    assert certificate["score_intervals"]["colour"]["low"] is None
    assert "baseline-meets-interval:colour" in certificate["findings"]


@pytest.mark.parametrize("sample", [29, 30])
def test_enough_that_is_asked_twice_leaves_no_word_of_unknown_variance(
    tmp_path: Path, sample: int
) -> None:
    changes: dict[str, JsonValue] = {"/execution_policy/deterministic_sample": sample}
    finished = pilot_stage(tmp_path, asked({"q": "a"}, {"q": "b"}), changes=changes).run(
        ScriptedAdapter()
    )
    findings: Any = finished.document("certificate.json")["findings"]
    assert ("within-item-variance-unknown" in findings) == (sample == 29)
    assert verify(finished.bundle, now=LATE).word == "consistent"


def reasons(template: JsonObject) -> dict[str, Any]:
    """Return criterion → why it has no baselines."""
    provider = TheatreScoringProvider(template, SCORERS)
    made = BaselineScores(provider, [PILOT], players=None, commitment_hash="c", under_test=PILOT)
    with contextlib.closing(DrawnEpisodes("c")) as drawn_:
        criteria: Any = made.as_document(drawn_, {})["criteria"]
    return {name: one["not_applicable"] for name, one in criteria.items()}


def test_a_criterion_without_baselines_says_why() -> None:
    assert reasons(TEMPLATE) == {"colour": None, "recall": None}
    whole = with_changes(TEMPLATE, {"/scoring/criteria_scorers/colour/params": {}})
    assert reasons(whole) == {"colour": None, "recall": None}
    easel = parse_object((FIXTURES / "templates" / "product_easel_v1.json").read_bytes())
    assert reasons(easel) == {
        "vocabulary_adherence": None,
        "tdr_propagation_fidelity": None,
        "downstream_compliance": None,
    }
    alone = with_changes(easel, {"/hitl_steps/0/share": 1})
    assert reasons(alone)["downstream_compliance"] == "human"
    judged: dict[str, JsonValue] = {
        "/scoring/criteria_scorers/colour": {"scorer": "llm_judge", "params": {"field": "colour"}},
        "/scorer_pins": {},
    }
    assert reasons(with_changes(TEMPLATE, judged)) == {"colour": "judged", "recall": None}


def test_the_thousand_with_the_smallest_digests_are_drawn() -> None:
    with contextlib.closing(DrawnEpisodes("a commitment")) as drawn_:
        for seq in range(1, 1501):
            drawn_.add(
                GroundTruthEpisode(seq=seq, episode_id=f"e-{seq}", input_data={"n": seq}),
                {"n": -seq},
                {"colour": None} if seq % 30 else {"colour": None, "rare": 1},
                tuple,
            )
            if seq == 700:  # what is read before the last one is added is not written over
                assert len([*drawn_.cases({3})]) == 1
        cases = [(one.seq, one.input_data, sent) for one, sent in drawn_.cases()]
        counted = len(drawn_)
        wanted, rare = ({*drawn_.of(one)} for one in ("colour", "rare"))
    digests = {
        seq: hashlib.sha256(f"a commitment:baseline:e-{seq}".encode()).hexdigest()
        for seq in range(1, 1501)
    }
    assert wanted == {*sorted(digests, key=lambda seq: digests[seq])[:1000]}
    assert rare == {*range(30, 1501, 30)}
    assert cases == [(seq, {"n": seq}, {"n": -seq}) for seq in sorted(wanted | rare)]
    assert counted == len(cases)


# --- what ships --------------------------------------------------------------------------------

FOUND: dict[str, list[str]] = {
    "axion": [],
    "axion_pair": [],
    "axion_pseudo": [],
    "cartograph": ["near-duplicates"],
    "debate_auditor": ["near-duplicates"],
    "debate_auditor_alarm": ["near-duplicates"],
    "debate_auditor_formal": ["near-duplicates"],
    "debate_control": [],
    "debate_herd": ["near-duplicates"],
    "debate_pleaser": [],
    "debate_team": ["near-duplicates"],
    "easel": ["answers-in-inputs"],
    "easel_adversarial": ["answers-in-inputs"],
    "easel_adversarial_raw": ["answers-in-inputs", "near-duplicates"],
    "easel_requests": ["answers-in-inputs"],
    "observer": ["answers-in-inputs"],
    "observer_adversarial": ["answers-in-inputs"],
    "observer_adversarial_raw": ["answers-in-inputs", "near-duplicates"],
}
"""Shipped template → what its data audit finds; docs/templates.md says why of each."""


@pytest.mark.parametrize(
    "path", sorted((FIXTURES / "templates").glob("product_*_v?.json")), ids=lambda path: path.stem
)
def test_what_the_shipped_datasets_give_away_is_known(path: Path) -> None:
    template = parse_object(path.read_bytes())
    view: Any = view_template(template)
    roots = DatasetRoots([FIXTURES])
    told: Any = preview_evidence(
        template,
        view,
        roots,
        SCORERS,
        runners=load_episode_runners(),
        sanitiser=TextSanitiser(),
        registry=SchemaRegistry(),
    )
    name = path.stem.removeprefix("product_").removesuffix("_v1")
    shown = [code for code in told["findings"] if not code.startswith("one-expectation:")]
    assert shown == FOUND[name]
    assert not [cap for cap in told["caps"] if cap.startswith("distinct")]
    by_words = [cap for cap in told["caps"] if cap.startswith("measure-unqualified:")]
    warnings = [warning.as_document()["rule"] for warning in validate_template(template).warnings]
    assert len(by_words) == warnings.count("measure-unqualified")
