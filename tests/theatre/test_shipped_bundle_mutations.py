"""No change of a shipped theatre's bundle goes unnoticed (docs/contract/evidence.md §6).

The theatres run for real, on a few of their episodes, so that a check is quick; what only many
probabilities bring is tried on a whole run. `test_bundle_mutations` has
every place that any bundle has; here are those that it has not, unless all mutants are asked for.
"""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.bundle_mutants import Mutant, group_of, mutants
from tests.theatre.cartograph_runs import TEMPLATE as CARTOGRAPH
from tests.theatre.cartograph_runs import run_cartograph
from tests.theatre.conftest import run_small_theatre
from tests.theatre.easel_runs import TEMPLATE as EASEL
from tests.theatre.easel_runs import run_easel
from tests.theatre.every_feature import run_every_feature
from tests.theatre.every_rating import run_every_rating
from tests.theatre.forged_bundle import Files, document, load, store
from tests.theatre.mutation_survivors import CAUGHT_WHERE_PEOPLE_RATE, chosen, setting, survivors_of
from tests.theatre.observer_runs import TEMPLATE as OBSERVER
from tests.theatre.observer_runs import run_observer
from tests.theatre.runs import with_changes
from tests.theatre.thinned import thinned
from theatre.engine.canonical_json import JsonObject

LOG = "ground_truth/observer_provenance.jsonl"
OPEN = {"input_data": 1, "output_data": 2, "output_spec": 1, "params": 1}
"""Members that hold whatever a construct or a template puts there → how deep to tell it apart."""
SNAPSHOT = "commitment_receipt.json/template_snapshot"
FRAME = {"seq", "prev_entry_hash", "theatre_id", "from_state", "to_state", "at", "entry_hash"}
"""What every entry of a trail has, beside its event and detail."""
ECE = "scores/aggregate.json/calibration/ece"


@pytest.fixture(scope="module", params=["cartograph", "observer", "easel"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
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
def tried(files: Files, known: frozenset[str]) -> list[Mutant]:
    """A mutant for each sort of place that is not known; all where all are asked for."""
    every, sort_of = list(mutants(files)), sorts(files)
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


@pytest.mark.parametrize("group", [*CAUGHT_WHERE_PEOPLE_RATE, LOG])
def test_no_mutant_of_a_shipped_theatres_bundle_survives_unnamed(
    files: Files, tried: list[Mutant], tmp_path: Path, group: str
) -> None:
    assert survivors_of(store(files, tmp_path / "bundle"), files, group, tried) == {}


def test_the_mutants_of_the_shipped_theatres_reach_what_only_they_have(
    files: Files, tried: list[Mutant]
) -> None:
    places = set(map(sorts(files), {mutant.place for mutant in tried}))
    is_observer, is_rated = LOG in files, any(name.startswith("hitl/") for name in files)
    answer = "carried/*" if is_rated else "source/quote" if is_observer else "result"
    assert f"invocations/*/calls/*/attempts/*/response/output_data/{answer}" in places
    assert ("resolution.json/steps/*/result/output/hops/*/lost" in places) is is_rated
    assert ("scores/aggregate.json/calibration/decomposition/resolution" in places) is is_observer
    assert {group_of(mutant.file) for mutant in tried} <= {*CAUGHT_WHERE_PEOPLE_RATE, LOG}


def test_no_mutant_of_a_measured_calibration_error_survives_unnamed(tmp_path: Path) -> None:
    files = load(run_observer(tmp_path / "run").bundle)
    measured = [one for one in mutants(files) if one.place.startswith(ECE)]
    tried = chosen(measured, at_least=0)
    assert {f"{ECE}/value", f"{ECE}/expected_if_calibrated"} <= {one.place for one in tried}
    folder = store(files, tmp_path / "bundle")
    assert survivors_of(folder, files, "scores/aggregate.json", tried) == {}
