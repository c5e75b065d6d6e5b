"""A measure carries a tier by its qualification, and no liar's qualification carries one."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.consequences import with_tier
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    check,
    document,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.pages.test_verify_js import failed, whys
from tests.theatre.pages.verify_page import ask, of_bundle
from tests.theatre.qualified_runs import (
    FILE,
    FOLDER,
    PARAMS,
    Rule,
    qualification,
    relying_on,
    signed,
)
from tests.theatre.runs import (
    ERROR,
    LATE,
    WRONG,
    Finished,
    ScriptedAdapter,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from theatre.api.draft_files import resolve_file
from theatre.api.qualifications import (
    add_qualification_check,
    qualification_faults,
    read_labelled_files,
)
from theatre.api.workspace import Workspace
from theatre.engine.bundle_check import CheckReport, CheckStatus, measures
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_line,
    canonical_sha256,
    sha256_hex,
)
from theatre.engine.clock import parse_rfc3339
from theatre.engine.models import ScorerKind
from theatre.engine.replay.tier_evidence import BY_HEART
from theatre.engine.scoring import measure_policy
from theatre.engine.scoring.measure_policy import KNOWN_SETS, why_unqualified
from theatre.engine.template_validator import TemplateValidator
from theatre.engine.templates import ProductTheatreTemplate, view_template
from theatre.engine.tier_assigner import TierAssigner, TierFacts, TierHistory
from theatre.files.datasets import DatasetRoots
from theatre.scorers import load_scorers

SCORERS = load_scorers()
MINE = {"mine": replace(SCORERS["contains_terms"], name="mine")}
CAP, TIER = "measure-unqualified:colour", "tier.json"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trust")


def run_of(
    folder: Path, made: JsonObject, home: Path, count: int = 60, scorer: str = "contains_terms"
) -> Finished:
    """Return a run in which every sixth answer is wrong, and every twenty-fifth none."""
    answers = dict.fromkeys(range(6, count + 1, 6), WRONG)
    answers |= dict.fromkeys(range(25, count + 1, 25), ERROR)
    stage = pilot_stage(
        folder,
        episodes(count, answers),
        changes=relying_on(made, scorer),
        further={FILE: signed(made, home)},
    )
    return stage.run(ScriptedAdapter(answer_as_asked), scorers={**SCORERS, **MINE})


@pytest.fixture(scope="module")
def earned(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Files:
    return load(run_of(tmp_path_factory.mktemp("earned"), qualification(), home, 110).bundle)


def failing(bundle: Path) -> tuple[set[str], set[str]]:
    """Return the failing lines of the check, and of `verify_bundle.py`."""
    report = check(bundle, scorers={**SCORERS, **MINE})
    alone = verify(bundle, now=LATE).problems
    return {one.id for one in report.failed}, {name for name, found in alone.items() if found}


def test_a_measure_that_is_qualified_carries_a_tier(earned: Files, tmp_path: Path) -> None:
    certificate = document(earned, "certificate.json")
    assert certificate["verification_tier"] == "BACKTESTED"
    told: Any = certificate["qualification"]
    assert told["colour"]["qualified"] is True
    assert told["colour"]["measure"] == "contains_terms@1"
    assert told["colour"]["labelled_set"]["made_by"] == "language models of the team, no person"
    assert told["colour"]["balanced_accuracy"]["value"] == pytest.approx(0.95, abs=0.01)
    assert "labels-by-models:colour" in cast("list[str]", certificate["findings"])
    found: Any = certificate["corrected_scores"]
    # 88 of 106 judged red by a measure that errs once in twenty; the four failed count 0.
    assert found["colour"] | {"low": 0, "high": 0} == {
        "raw": 0.8, "n": 106, "errors_from": "qualification", "controls": None,
        "value": found["colour"]["value"],
        "low": 0, "high": 0, "method": "lang_reiczigel", "level": 0.95, "reason": None,
    }  # fmt: skip
    share = told["colour"]["sensitivity"]["value"], told["colour"]["specificity"]["value"]
    truth = 106 / 110 * (88 / 106 + share[1] - 1) / (sum(share) - 1)
    assert found["colour"]["value"] == pytest.approx(truth, abs=0.01)
    assert found["colour"]["low"] < 0.8 < found["colour"]["value"] < found["colour"]["high"]
    assert failing(store(earned, tmp_path / "bundle")) == (set(), set())


def test_a_scorer_of_ones_own_may_know_the_labels_by_heart_and_carries_no_tier(
    tmp_path: Path, home: Path
) -> None:
    run = run_of(tmp_path, qualification(scorer="mine"), home, scorer="mine")
    certificate: Any = run.document("certificate.json")
    assert certificate["qualification"]["colour"]["qualified"] is True
    assert (certificate["verification_tier"], CAP in certificate["caps"]) == ("UNVERIFIED", True)
    assert "own-scorer:colour" in certificate["findings"]
    facts: Any = run.document(TIER)["facts"]
    assert facts["unqualified_measures"] == {"colour": f"mine: {BY_HEART}"}
    assert failing(run.bundle) == (set(), set())


def lifted(files: Files) -> Files:
    """Return the files with a tier that no qualification bears out, every hash made anew."""
    told = document(files, TIER)
    facts = cast("JsonObject", told["facts"]) | {"unqualified_measures": {}}
    assessment = TierAssigner.assign(
        TierFacts.from_document(facts),
        TierHistory(),
        resolved_at=parse_rfc3339(
            cast("str", document(files, "certificate.json")["theatre_resolved_at"])
        ),
    )
    told |= {"facts": facts, "assessment": assessment.as_document()}
    return resealed(with_tier(with_document(files, TIER, told)), Effort.CHAIN)


def test_a_weak_measure_is_shown_and_caps_the_tier_whatever_is_written(
    tmp_path: Path, home: Path, earned: Files
) -> None:
    made = qualification(lambda *_: 1.0)
    weak = load(run_of(tmp_path / "run", made, home).bundle)
    certificate = document(weak, "certificate.json")
    assert (certificate["verification_tier"], certificate["caps"]) == ("UNVERIFIED", [CAP])
    corrected: Any = certificate["corrected_scores"]
    assert (corrected["colour"]["value"], corrected["colour"]["reason"]) == (
        None, "fewer than 100 items",
    )  # fmt: skip
    bundles = [
        store(files, tmp_path / name)
        for name, files in (("weak", weak), ("lifted", lifted(weak)), ("earned", earned))
    ]
    assert [failing(one) for one in bundles[:2]] == [(set(), set()), ({"tier"}, {"tier"})]
    named = document(earned, "template.json")
    cast("Any", named)["scoring"]["qualifications"]["colour"]["sha256"] = "1" * 64
    answers = ask(
        [
            *(of_bundle(one) for one in bundles),
            of_bundle(bundles[-1], {"template.json": canonical_line(named)}),
        ]
    )
    # No browser computes which measure qualifies: no tier that rests on one is green there, and
    # one is red whose document is another than the template names, or says that it is too weak.
    assert [failed(one) for one in answers[:3]] == [[], ["tier"], []]
    for answer in (answers[0], answers[2]):
        assert {"tier", "qualifications"} <= set(answer["value"]["unchecked"])
    assert "the qualification of colour" in whys(answers[3])


# What both readings say of a template's qualification: the engine's, and the check's own.


def template(made: JsonObject, **changes: JsonValue) -> Any:  # noqa: ANN401 - a document
    return {
        "schema_version": "2.2.0",
        "criteria": {"criteria_ids": ["colour"]},
        "scoring": {
            "criteria_scorers": {"colour": {"scorer": "contains_terms", "params": PARAMS}},
            "qualifications": {"colour": {"dataset": "m", "sha256": canonical_sha256(made)}},
        },
    } | changes


def reasons(
    file: bytes,
    told: Any,  # noqa: ANN401 - a document
    version: str = "1",
    kind: str = "textual",
) -> tuple[str | None, str | None]:
    """Return why `colour` carries no tier, by the engine and by the check."""

    def lines(_: str) -> list[bytes]:
        return [file.removesuffix(b"\n")]

    choice = told["scoring"]["criteria_scorers"]["colour"]
    read = measure_policy.read_qualifications(told, lines)
    engine = why_unqualified(
        choice["scorer"],
        kind,
        version,
        choice["params"],
        read.get("colour"),
        is_named="colour" in read,
    )
    check = measures.unqualified_measures(
        told,
        {choice["scorer"]: kind},
        {choice["scorer"]: version},
        measures.committed_qualifications(told, lines),
        {},
    )
    return engine, check.get("colour")


OTHER = "contains_terms: its qualification is of another "
WEAK = "contains_terms: its balanced accuracy may be below 0.75"
UNKNOWN = "contains_terms: qualified on a labelled set that policy does not know"


def last_label() -> Rule:
    """Return a judge that answers each claim with the label of the one before."""
    seen = [True]

    def rule(row: Any, _: int) -> float:  # noqa: ANN401
        seen.append(row.is_true)
        return float(seen[-2])

    return rule


BEST_LENGTH = 102
"""In characters: above it 55 % are told rightly, and at no other length more."""


def by_length(row: Any, _: int) -> float:  # noqa: ANN401
    """Go by how long a claim is alone, at the length that tells most of the labelled set."""
    return float(len(shipped_claims()[row.claim_id]) > BEST_LENGTH)


LIARS: dict[str, tuple[Callable[[], JsonObject], str]] = {
    "supports all": (partial(qualification, lambda *_: 1.0), WEAK),
    "refuses all": (partial(qualification, lambda *_: 0.0), WEAK),
    "flips": (partial(qualification, lambda row, _: float(not row.is_true)), WEAK),
    "a coin": (partial(qualification, lambda _, place: float(place * 7 % 5 > 2)), WEAK),
    "copies the last label": (partial(qualification, last_label()), WEAK),
    "reads lengths": (partial(qualification, by_length), WEAK),
    "says nothing usable": (partial(qualification, lambda *_: None), WEAK),
    "right at 0.78, not surely": (
        partial(qualification, lambda row, place: float(row.is_true is (place % 100 < 78))), WEAK),
    "half of the rows": (partial(qualification, keep=lambda row: row.claim_id < "b"), UNKNOWN),
    "without its errors": (
        partial(
            qualification,
            lambda row, _: float(row.is_true),
            keep=lambda row: row.kind != "negation"),
        UNKNOWN),
    "claims of its own": (partial(qualification, texts_sha256="0" * 64), UNKNOWN),
    "another model": (partial(qualification, scorer="yours"), OTHER + "scorer"),
    "another version": (partial(qualification, version="2"), OTHER + "version"),
    "other terms": (
        partial(qualification, params=PARAMS | {"terms": ["blue"]}),
        OTHER + "terms"),
    "a member more": (
        partial(qualification, params=PARAMS | {"case": True}),
        OTHER + "case"),
    "held against an expectation": (
        partial(qualification, params=PARAMS | {"expected": "a"}),
        OTHER + "expected"),
    "a threshold that suits": (
        partial(qualification, threshold=0.01),
        "contains_terms: qualified with another threshold than 0.5"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "reason"), LIARS.values(), ids=LIARS)
def test_no_liar_carries_a_tier_by_a_qualification(
    home: Path, make: Callable[[], JsonObject], reason: str
) -> None:
    made = make()
    assert reasons(signed(made, home), template(made)) == (reason, reason)


def test_an_honest_measure_does_and_where_things_lie_is_no_matter(home: Path) -> None:
    made = qualification(params=PARAMS | {"field": "elsewhere"})
    file = signed(made, home)
    assert reasons(file, template(made)) == (None, None)
    assert reasons(file, template(made), version="2")[0] == (
        "contains_terms: its qualification is of another version"
    )
    # Without a qualification a judge carries no more than words do; what is exact needs none.
    bare = template(made)
    del bare["scoring"]["qualifications"]
    bare["scoring"]["criteria_scorers"]["colour"]["scorer"] = "mine"
    for kind in ("textual", "judged"):
        assert reasons(file, bare, kind=kind) == (f"mine is {kind}", f"mine is {kind}")
    assert reasons(file, bare, kind=ScorerKind.EXACT) == (None, None)
    # Before 2.2.0 the member is open, and means nothing.
    told = template(made, schema_version="2.1.0")
    assert reasons(file, told) == (*("contains_terms is textual",) * 2,)


@pytest.mark.parametrize(
    "edit",
    [
        lambda it: it["balanced_accuracy"].update(low=0.9),
        lambda it: it["rows"][0].update(score=1 - it["rows"][0]["score"]),
        lambda it: it["specificity"].update(value=False),
        lambda it: it["sensitivity"].update(low=False),
        lambda it: it["rows"].pop(),
        lambda it: it["rows"].append(it["rows"][0]),
        lambda it: it["rows"][0].update(verdict="supported", kind="plain"),
        lambda it: it["labelled_set"].update(sha256="0" * 64),
    ],
)
def test_an_edited_document_is_no_qualification_whoever_signs_it(home: Path, edit: Any) -> None:  # noqa: ANN401
    made = copy.deepcopy(qualification(lambda row, _: float(not row.is_true)))
    edit(made)
    unread = "contains_terms: its qualification cannot be read"
    assert reasons(signed(made, home), template(made)) == (unread, unread)


@pytest.mark.parametrize(
    "file", [b"", b"{}\n", b"not json\n", b'{"dsseEnvelope":{"signatures":[]}}\n']
)
def test_another_file_is_no_qualification(file: bytes) -> None:
    unread = "contains_terms: its qualification cannot be read"
    assert reasons(file, template({})) == (unread, unread)


def test_another_hash_than_the_template_names_is_another_qualification(home: Path) -> None:
    unread = "contains_terms: its qualification cannot be read"
    file = signed(qualification(lambda row, _: float(row.is_true)), home)
    assert reasons(file, template(qualification())) == (unread, unread)


def test_the_check_has_its_own_list_of_labelled_sets_and_it_is_the_same() -> None:
    assert measures.LABELLED_SETS == KNOWN_SETS
    (known,) = KNOWN_SETS
    assert cast("JsonObject", qualification()["labelled_set"])["sha256"] == known
    from tests.theatre.labelled_changes import agreements, halves, judged_twice

    pairs = [pair for half in halves() for pair in judged_twice(half)]
    n, raw, kappa = agreements(pairs)["four verdicts"]
    stated = cast("dict[str, Any]", KNOWN_SETS[known]["agreement"])
    assert (n, round(raw, 3)) == (stated["claims"], stated["raw"])
    assert kappa is not None
    assert round(kappa, 3) == stated["kappa"]


# The command line, which knows whose keys are whose, and can measure again.

WORDS: JsonObject = {"field": "summary", "terms": ["the"]}


@pytest.fixture
def own_keys(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(home))
    return home


def says_the(row: Any, _: int) -> float:  # noqa: ANN401
    """What `contains_terms` really gives on this set."""
    return float("the" in shipped_claims()[row.claim_id].lower())


@cache
def shipped_claims() -> Mapping[str, str]:
    return read_labelled_files([FOLDER]).claims


def faults(folder: Path, made: JsonObject, file: bytes, terms: str = "the") -> list[str]:
    """Return what `validate` and the commitment say of a template that relies on a file."""
    changes = relying_on(made, "contains_terms", WORDS | {"field": "colour", "terms": [terms]})
    stage = pilot_stage(folder, episodes(1), changes=changes, further={FILE: file})
    view = view_template(stage.template)
    assert isinstance(view, ProductTheatreTemplate)
    found = qualification_faults(stage.template, view, DatasetRoots([folder]))
    return [f"{one.pointer} {one.rule}: {one.detail}" for one in found]


def test_a_draft_names_the_file_and_its_hash_is_pinned(tmp_path: Path, own_keys: Path) -> None:
    made = qualification(says_the, scorer="contains_terms", params=WORDS)
    file = tmp_path / "measured.sigstore.json"
    file.write_bytes(signed(made, own_keys))
    (tmp_path / "data.jsonl").write_bytes(canonical_line(episodes(1)[0]))
    (tmp_path / "solution.py").write_text("def answer(asked):\n    return {}\n", encoding="utf-8")
    measure: JsonObject = {"scorer": "contains_terms", "terms": ["the"], "qualification": file.name}
    draft: JsonObject = {
        "construct": "solution:answer",
        "data": "data.jsonl",
        "measures": {"says_the": {**measure, "answer": {"field": "summary"}}},
    }
    workspace = Workspace.from_environment({"ECHELON_HOME": str(tmp_path / "home")})
    pinned = resolve_file(tmp_path / "echelon.yaml", draft, workspace)
    told: Any = pinned.document
    named = {"dataset": "says_the_qualification", "sha256": canonical_sha256(made)}
    assert (pinned.problems, told["scoring"]["qualifications"]) == ((), {"says_the": named})
    assert told["dataset_hashes"]["says_the_qualification"] == sha256_hex(file.read_bytes())
    report = TemplateValidator(SCORERS).validate(told, certificate_run=True)
    assert [one for one in report.errors if "qualif" in one.pointer + one.rule] == []
    file.write_bytes(b"{}\n")
    (fault,) = resolve_file(tmp_path / "echelon.yaml", draft, workspace).problems
    assert (fault.pointer, fault.rule) == (
        "/scoring/qualifications/says_the", "qualification-fits",
    )  # fmt: skip


def test_only_what_is_ones_own_fits_and_can_be_repeated_is_committed(
    tmp_path: Path, own_keys: Path
) -> None:
    honest = qualification(says_the, scorer="contains_terms", params=WORDS)
    assert honest["qualified"] is False
    own = signed(honest, own_keys)
    assert faults(tmp_path / "own", honest, own) == []
    edited = qualification(scorer="contains_terms", params=WORDS)
    assert edited["qualified"] is True
    place = "/scoring/qualifications/colour qualification-fits: the qualification: "
    for name, made, file, terms, why in (
        ("theirs", honest, signed(honest, tmp_path / "other"), "the", "by a key that signs"),
        ("edited", edited, signed(edited, own_keys), "the", "the scores that the measure gives"),
        ("terms", honest, own, "a", "got: its qualification is of another terms"),
        ("hash", edited, own, "the", "that the template names"),
        ("none", honest, b"{}\n", "the", "that `echelon qualify` signed"),
    ):
        (found,) = faults(tmp_path / name, made, file, terms)
        assert found.startswith(place), name
        assert why in found, name


def test_a_reader_sees_who_signed_and_that_a_pure_measure_says_otherwise(
    tmp_path: Path, own_keys: Path, earned: Files
) -> None:
    bundle = store(earned, tmp_path / "bundle")
    # Where the measure is not installed the signature is all there is.
    line = add_qualification_check(CheckReport(checks=()), bundle, None, {}).checks[0]
    assert (line.id, line.status) == ("qualifications", CheckStatus.PASS)
    assert "signed by your own key" in line.actual
    # Invented rows, signed by their inventor: the measure itself is asked again.
    made = qualification(scorer="contains_terms", params=WORDS | {"field": "colour"})
    file = signed(made, own_keys)
    (tmp_path / "forged" / "ground_truth").mkdir(parents=True)
    (tmp_path / "forged" / "ground_truth" / FILE).write_bytes(file)
    told = template(made)
    told["scoring"]["qualifications"]["colour"]["dataset"] = FILE.removesuffix(".jsonl")
    (tmp_path / "forged" / "template.json").write_bytes(canonical_line(told))
    honest, forged = CheckReport(checks=()), tmp_path / "forged"
    (line,) = add_qualification_check(honest, forged, None, SCORERS).checks
    assert (line.status, "the scores that the measure gives" in line.actual) == (
        CheckStatus.FAIL, True,
    )  # fmt: skip
