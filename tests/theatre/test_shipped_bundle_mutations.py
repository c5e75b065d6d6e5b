"""No change of a shipped theatre's bundle goes unnoticed (evidence.md §6).

Both theatres run for real, on every twentieth and every tenth of their episodes, so that a check
is quick; what only many probabilities bring is tried on a whole run. `test_bundle_mutations` has
every place that any bundle has; here are those that it has not, unless all mutants are asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.bundle_mutants import Mutant, group_of, mutants
from tests.theatre.conftest import run_small_theatre
from tests.theatre.every_feature import run_every_feature
from tests.theatre.forged_bundle import Files, document, load, store
from tests.theatre.mutation_survivors import CAUGHT_BY, chosen, setting, survivors_of
from tests.theatre.observer_runs import CONSTRUCTS, FIXTURES, run_observer
from tests.theatre.observer_runs import TEMPLATE as OBSERVER
from tests.theatre.runs import Finished, Stage, ticking_clock, with_changes
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.oracles.construct_registry import ConstructRegistry, local_adapter_for

CARTOGRAPH = parse_object((FIXTURES / "templates" / "product_cartograph_v1.json").read_bytes())
LOG = "ground_truth/observer_provenance.jsonl"
ECE = "scores/aggregate.json/calibration/ece"


def thinned(template: JsonObject, folder: Path, *, step: int) -> JsonObject:
    """Write the datasets of `template` with every `step`th episode; return who commits to them."""
    config = cast("dict[str, str]", template["product_theatre_config"])
    episodes = (FIXTURES / config["replay_data_path"]).read_bytes().splitlines(keepends=True)
    kept = episodes[::step]
    ids = {parse_object(line)["episode_id"] for line in kept}
    changes = {f"/dataset_hashes/{config['replay_dataset_id']}": sha256_hex(b"".join(kept))}
    (folder / "ground_truth").mkdir(parents=True)
    (folder / config["replay_data_path"]).write_bytes(b"".join(kept))
    if "gold_label_set" in config:
        gold = (FIXTURES / config["gold_label_set"]).read_bytes().splitlines(keepends=True)
        labels = b"".join(line for line in gold if parse_object(line)["episode_id"] in ids)
        (folder / config["gold_label_set"]).write_bytes(labels)
        changes["/dataset_hashes/gold_labels"] = sha256_hex(labels)
    others = cast("dict[str, str]", config.get("dataset_paths", {}))
    for path in others.values():
        (folder / path).write_bytes((FIXTURES / path).read_bytes())
    return with_changes(template, changes)


def run_cartograph(folder: Path, template: JsonObject, data: Path) -> Finished:
    construct = ConstructRegistry.load(CONSTRUCTS).find("cartograph")
    adapter = local_adapter_for(construct, clock=ticking_clock(), monotonic=time.monotonic)
    return Stage(folder, template, data=data).run(adapter)


@pytest.fixture(scope="module", params=["cartograph", "observer"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The bundle of a dozen episodes, or a few more."""
    folder = tmp_path_factory.mktemp(request.param)
    data = folder / "data"
    if request.param == "cartograph":
        template = thinned(CARTOGRAPH, data, step=20)
        return load(run_cartograph(folder / "run", template, data).bundle)
    template = thinned(OBSERVER, data, step=10)
    return load(run_observer(folder / "run", template=template, data=data).bundle)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """The sorts of place that the bundles of `test_bundle_mutations` have."""
    if setting() == "all":
        return frozenset()
    folder = tmp_path_factory.mktemp("known")
    others = (run_small_theatre(folder / "small").sealed, run_every_feature(folder / "features"))
    return frozenset(
        sort_of(mutant.place, bundle) for bundle in map(load, others) for mutant in mutants(bundle)
    )


def sort_of(place: str, bundle: Files) -> str:
    """Return a place with one name for whatever the criterion, scorer or construct is called."""
    template = document(bundle, "template.json")
    criteria = cast("dict[str, list[str]]", template["criteria"])["criteria_ids"]
    pins = cast("dict[str, JsonObject]", template["version_pins"])["constructs"]
    names = {**dict.fromkeys(criteria, "<criterion>"), **dict.fromkeys(pins, "<construct>")}
    names |= dict.fromkeys(cast("JsonObject", template["scorer_pins"]), "<scorer>")
    return "/".join(names.get(part, part) for part in place.split("/"))


def one_a_sort(every: Iterable[Mutant], bundle: Files, known: frozenset[str]) -> list[Mutant]:
    """Return a mutant for each sort of place that is not known; all where all are asked for."""
    new = [mutant for mutant in every if sort_of(mutant.place, bundle) not in known]
    if setting() == "all":
        return new
    return list({sort_of(one.place, bundle): one for one in chosen(new, at_least=0)}.values())


@pytest.mark.no_cover
@pytest.mark.parametrize("group", [*CAUGHT_BY, LOG])
def test_no_mutant_of_a_shipped_theatres_bundle_survives_unnamed(
    files: Files, known: frozenset[str], tmp_path: Path, group: str
) -> None:
    tried = one_a_sort(mutants(files), files, known)
    assert survivors_of(store(files, tmp_path / "bundle"), files, group, tried) == {}


def test_the_mutants_of_the_shipped_theatres_reach_what_only_they_have(
    files: Files, known: frozenset[str]
) -> None:
    tried = one_a_sort(mutants(files), files, known)
    places = {mutant.place for mutant in tried}
    is_observer = LOG in files
    answer = "source/quote" if is_observer else "result"
    assert f"invocations/*/calls/*/attempts/*/response/output_data/{answer}" in places
    assert ("scores/aggregate.json/calibration/decomposition/resolution" in places) is is_observer
    assert {group_of(mutant.file) for mutant in tried} <= {*CAUGHT_BY, LOG}


@pytest.mark.no_cover
def test_no_mutant_of_a_measured_calibration_error_survives_unnamed(
    tmp_path: Path,
) -> None:
    files = load(run_observer(tmp_path / "run").bundle)
    measured = [one for one in mutants(files) if one.place.startswith(ECE)]
    tried = chosen(measured, at_least=0)
    assert {f"{ECE}/value", f"{ECE}/expected_if_calibrated"} <= {one.place for one in tried}
    folder = store(files, tmp_path / "bundle")
    assert survivors_of(folder, files, "scores/aggregate.json", tried) == {}
