"""No change of a real bundle goes unnoticed, however much of it is made anew.

Source: docs/contract/evidence.md §6.

Each mutant is checked at two efforts of its forger, at all four where all mutants are asked for
(see `Effort`); what survives the last one has a name in `mutation_survivors`. ECHELON_TEST_MUTANTS
is how many there are, or `all` (so with ECHELON_SOAK); every place of every document has at least
one in any case.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.bundle_mutants import Mutant, group_of, mutants
from tests.theatre.cartograph_runs import TEMPLATE as CARTOGRAPH
from tests.theatre.cartograph_runs import run_cartograph
from tests.theatre.conftest import run_small_theatre
from tests.theatre.consequences import CONSEQUENCES
from tests.theatre.easel_runs import TEMPLATE as EASEL
from tests.theatre.easel_runs import run_easel
from tests.theatre.every_feature import run_every_feature
from tests.theatre.every_rating import run_every_rating
from tests.theatre.forged_bundle import Effort, Files, check, document, load, resealed, store
from tests.theatre.mutation_survivors import (
    CAUGHT_BY,
    CAUGHT_WHERE_PEOPLE_RATE,
    chosen,
    setting,
    survivors_of,
)
from tests.theatre.observer_runs import TEMPLATE as OBSERVER
from tests.theatre.observer_runs import run_observer
from tests.theatre.runs import with_changes
from tests.theatre.thinned import thinned
from theatre.engine.canonical_json import JsonObject
from theatre.engine.tier_assigner import (
    Attestation,
    BehaviouralSignal,
    Dispute,
    DisputeStatus,
    RunRecord,
    TelemetryWindow,
    TierHistory,
    VerificationTier,
)

LOG = "ground_truth/log.jsonl"
FRAME = {"seq", "prev_entry_hash", "theatre_id", "from_state", "to_state", "at", "entry_hash"}
"""What every entry of a trail has, beside its event and detail."""


def full_history() -> TierHistory:
    """Return one record of every sort, none of which changes the tier of the run."""
    then = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    construct_id, version = "sums", "0123456"
    return TierHistory(
        runs=(
            RunRecord(
                theatre_id="11111111-1111-4111-8111-111111111111",
                construct_id=construct_id,
                construct_version=version,
                tier=VerificationTier.UNVERIFIED,
                resolved_at=then,
                results_hash="1" * 64,
            ),
        ),
        telemetry=(
            TelemetryWindow(
                construct_id=construct_id,
                construct_version=version,
                start=then,
                end=datetime(2026, 2, 1, tzinfo=UTC),
                confirmed_at=datetime(2026, 2, 2, tzinfo=UTC),
            ),
        ),
        attestations=(
            Attestation(attester="one", independent=True, results_hash="1" * 64, at=then),
        ),
        disputes=(Dispute(dispute_id="d-1", status=DisputeStatus.FILED, at=then),),
        signals=(
            BehaviouralSignal(
                source="one",
                construct_id=construct_id,
                construct_version=version,
                consistent=True,
                at=then,
            ),
        ),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A run of every outcome, with history."""
    return load(run_small_theatre(tmp_path_factory.mktemp("run"), history=full_history()).sealed)


@pytest.fixture(scope="module")
def feature_files(every_feature: Path) -> Files:
    """A run with everything that a template can commit."""
    return load(every_feature)


@pytest.fixture(scope="module")
def rated_files(every_rating: Path) -> Files:
    """A run with everything that people and failing steps can leave."""
    return load(every_rating)


@pytest.fixture(scope="module")
def of_people(files: Files, feature_files: Files, rated_files: Files) -> list[Mutant]:
    """The mutants of the rated run: one for each sort of place that only it has, or all."""
    every = list(mutants(rated_files))
    if setting() == "all":
        return every
    known = {sort_of(one.place) for bundle in (files, feature_files) for one in mutants(bundle)}
    new = chosen([one for one in every if sort_of(one.place) not in known], at_least=0)
    return [*{sort_of(one.place): one for one in new}.values()]


def sort_of(place: str) -> str:
    """Return a place with one name for what every entry of a trail has, and for a snapshot."""
    file, _, below = place.partition("/")
    member = below.partition("/")[2]
    if file == "audit_trail.jsonl" and member in FRAME:
        return f"{file}/*/{member}"
    snapshot = "commitment_receipt.json/template_snapshot"
    return snapshot if place.startswith(snapshot) else place


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> Path:
    """The honest bundle, to be changed and put back."""
    return store(files, tmp_path / "bundle")


@pytest.mark.parametrize("group", CAUGHT_BY)
def test_no_mutant_survives_unnamed(files: Files, folder: Path, group: str) -> None:
    assert survivors_of(folder, files, group, chosen(list(mutants(files)))) == {}


@pytest.mark.parametrize("group", [*CAUGHT_BY, LOG])
def test_no_mutant_of_a_run_with_every_feature_survives_unnamed(
    files: Files, feature_files: Files, tmp_path: Path, group: str
) -> None:
    """At the places that the other run has, too, only where all mutants are asked for."""
    known = set() if setting() == "all" else {mutant.place for mutant in mutants(files)}
    new = [mutant for mutant in mutants(feature_files) if mutant.place not in known]
    folder = store(feature_files, tmp_path / "features")
    assert survivors_of(folder, feature_files, group, chosen(new, at_least=0)) == {}


@pytest.mark.parametrize("group", CAUGHT_WHERE_PEOPLE_RATE)
def test_no_mutant_of_a_run_that_people_rated_survives_unnamed(
    rated_files: Files, of_people: list[Mutant], tmp_path: Path, group: str
) -> None:
    folder = store(rated_files, tmp_path / "rated")
    assert survivors_of(folder, rated_files, group, of_people) == {}


def test_the_mutants_of_the_rated_run_reach_what_only_it_has(of_people: list[Mutant]) -> None:
    places = {mutant.place for mutant in of_people}
    assert {
        "audit_trail.jsonl/human_score/detail/score",
        "audit_trail.jsonl/human_score_refused/detail/code",
        "audit_trail.jsonl/hitl_opened/detail/items/*",
        "audit_trail.jsonl/escalated/detail/to",
        "hitl/*/scorer",
        "resolution.json/steps/*/result/human_mean",
        "scores/aggregate.json/human_scores/taste/agreement/value",
    } <= places
    assert {group_of(mutant.file) for mutant in of_people} <= CAUGHT_WHERE_PEOPLE_RATE.keys()


def test_the_sample_has_every_place_and_every_kind(files: Files) -> None:
    every = list(mutants(files))
    picked = chosen(every)
    assert {mutant.place for mutant in picked} == {mutant.place for mutant in every}
    assert {mutant.kind for mutant in picked} == {mutant.kind for mutant in every}
    assert {group_of(mutant.file) for mutant in picked} == set(CAUGHT_BY)
    assert {group_of(name) for name in files} == set(CAUGHT_BY)


@pytest.mark.parametrize("group", CONSEQUENCES)
def test_making_an_honest_bundle_anew_changes_nothing(
    files: Files, feature_files: Files, rated_files: Files, group: str
) -> None:
    for honest in (files, feature_files, rated_files):
        assert resealed(honest, Effort.CERTIFIED_HASH) == honest
        assert resealed(CONSEQUENCES[group](honest), Effort.CHAIN) == honest


def test_the_honest_bundle_is_consistent(folder: Path) -> None:
    assert check(folder).consistent


PROVENANCE = "ground_truth/observer_provenance.jsonl"
OPEN = {"input_data": 1, "output_data": 2, "output_spec": 1, "params": 1}
"""Members that hold whatever a construct or a template puts there → how deep to tell it apart."""
SNAPSHOT = "commitment_receipt.json/template_snapshot"
"""What every entry of a trail has, beside its event and detail."""
ECE = "scores/aggregate.json/calibration/ece"


@pytest.fixture(scope="module", params=["cartograph", "observer", "easel"])
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The bundle of a dozen episodes, or a few more; of a chain, of three."""
    folder = tmp_path_factory.mktemp(request.param)
    data = folder / "data"
    if request.param == "cartograph":
        template = thinned(CARTOGRAPH, data, step=20)
        return load(run_cartograph(folder / "run", template=template, data=data).bundle)
    if request.param == "easel":
        once = {"/execution_policy/deterministic_sample": 1}
        template = with_changes(thinned(EASEL, data, step=30), once)
        return load(run_easel(folder / "run", template=template, data=data).bundle)
    template = thinned(OBSERVER, data, step=10)
    return load(run_observer(folder / "run", template=template, data=data).bundle)


SortOf = Callable[[str], str]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """The sorts of place that the bundles of `test_bundle_mutations` have."""
    if setting() == "all":
        return frozenset()
    folder = tmp_path_factory.mktemp("known")
    others = (
        run_small_theatre(folder / "small").sealed,
        run_every_feature(folder / "features"),
        run_every_rating(folder / "ratings"),
    )
    found: set[str] = set()
    for bundle in map(load, others):
        found |= set(map(sorts(bundle), {mutant.place for mutant in mutants(bundle)}))
    return frozenset(found)


@pytest.fixture(scope="module")
def tried(shipped: Files, known: frozenset[str]) -> list[Mutant]:
    """A mutant for each sort of place that is not known; all where all are asked for."""
    every, sort_of = list(mutants(shipped)), sorts(shipped)
    new = {place for place in {one.place for one in every} if sort_of(place) not in known}
    meant = [mutant for mutant in every if mutant.place in new]
    if setting() == "all":
        return meant
    return [*{sort_of(one.place): one for one in chosen(meant, at_least=0)}.values()]


def sorts(bundle: Files) -> SortOf:
    """Return how to name the sort of a place: alike whatever criterion or construct it is about.

    What lies deep in a construct's or a template's own documents is of one sort, and so are what
    every entry of a trail has, what a step's result is in trail and resolution, and a snapshot.
    """
    template = document(bundle, "template.json")
    criteria = cast("dict[str, list[str]]", template["criteria"])["criteria_ids"]
    pins = cast("dict[str, JsonObject]", template["version_pins"])["constructs"]
    names = {**dict.fromkeys(criteria, "<criterion>"), **dict.fromkeys(pins, "<construct>")}
    names |= dict.fromkeys(cast("JsonObject", template["scorer_pins"]), "<scorer>")

    def sort_of(place: str) -> str:
        file, _, below = place.partition("/")
        if place.startswith(SNAPSHOT):
            return SNAPSHOT
        if file == "audit_trail.jsonl" and below.partition("/")[2] in FRAME:
            return f"{file}/*/{below.partition('/')[2]}"
        place = place.replace("audit_trail.jsonl/step_completed/detail", "resolution.json/steps/*")
        parts = [names.get(part, part) for part in place.split("/")]
        begin = next((n for n, part in enumerate(parts, start=1) if part in OPEN), len(parts))
        depth = OPEN.get(parts[begin - 1], 0)
        inside = ["<fact>" if "." in part else part for part in parts[begin : begin + depth]]
        return "/".join([*parts[:begin], *inside])

    return sort_of


@pytest.mark.parametrize("group", [*CAUGHT_WHERE_PEOPLE_RATE, PROVENANCE])
def test_no_mutant_of_a_shipped_theatres_bundle_survives_unnamed(
    shipped: Files, tried: list[Mutant], tmp_path: Path, group: str
) -> None:
    assert survivors_of(store(shipped, tmp_path / "bundle"), shipped, group, tried) == {}


def test_the_mutants_of_the_shipped_theatres_reach_what_only_they_have(
    shipped: Files, tried: list[Mutant]
) -> None:
    places = set(map(sorts(shipped), {mutant.place for mutant in tried}))
    is_observer, is_rated = PROVENANCE in shipped, any(name.startswith("hitl/") for name in shipped)
    answer = "carried/*" if is_rated else "source/quote" if is_observer else "result"
    assert f"invocations/*/calls/*/attempts/*/response/output_data/{answer}" in places
    assert ("resolution.json/steps/*/result/output/hops/*/lost" in places) is is_rated
    assert ("scores/aggregate.json/calibration/decomposition/resolution" in places) is is_observer
    assert {group_of(mutant.file) for mutant in tried} <= {*CAUGHT_WHERE_PEOPLE_RATE, PROVENANCE}


def test_no_mutant_of_a_measured_calibration_error_survives_unnamed(tmp_path: Path) -> None:
    files = load(run_observer(tmp_path / "run").bundle)
    measured = [one for one in mutants(files) if one.place.startswith(ECE)]
    tried = chosen(measured, at_least=0)
    assert {f"{ECE}/value", f"{ECE}/expected_if_calibrated"} <= {one.place for one in tried}
    folder = store(files, tmp_path / "bundle")
    assert survivors_of(folder, files, "scores/aggregate.json", tried) == {}
