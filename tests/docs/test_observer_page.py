"""`docs/observer.md`: each of its numbers is the one that a run brings."""

import json
import tarfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from tests.theatre.observer_runs import (
    BASELINES,
    CONSTRUCTS,
    GROUND_TRUTH,
    OBSERVER,
    TEMPLATE,
    run_observer,
)
from tests.theatre.runs import Finished
from theatre.api.connections import replace_construct
from theatre.cli.pictures import certificate_pictures
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "observer.md").read_text(encoding="utf-8")
CANVASES = (
    *("accessibility", "collaboration", "onboarding", "pricing", "reliability"),
    "trust-and-privacy",
)
SIGNALS = ("HIGH", "MEDIUM", "LOW")
NAMES = (OBSERVER, *BASELINES)


class Measured(NamedTuple):
    """What one construct answered and how it was scored."""

    answers: Mapping[str, dict[str, Any]]
    certificate: dict[str, Any]
    aggregate: dict[str, Any]


def gold_lines() -> Iterable[dict[str, Any]]:
    raw = (GROUND_TRUTH / "product_observer_gold_v1.jsonl").read_bytes()
    return map(json.loads, raw.splitlines())


GOLD = {line["episode_id"]: line["label"] for line in gold_lines()}
KIND = {
    line["episode_id"]: line["note"].partition(":")[0] for line in gold_lines() if "note" in line
}


def answers_of(finished: Finished) -> dict[str, dict[str, Any]]:
    answers = {}
    for seq in range(1, 164):
        (call,) = [one for one in finished.calls(seq) if one["repeat"] == 0]
        attempt = cast("list[dict[str, Any]]", call["attempts"])[-1]
        answers[str(finished.record(seq)["episode_id"])] = attempt["response"]["output_data"]
    return answers


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    registry = ConstructRegistry.load(CONSTRUCTS)
    found = {}
    for name in NAMES:
        version = construct_version(registry.find(name))
        template = (
            replace_construct(TEMPLATE, name, version=version) if name != OBSERVER else TEMPLATE
        )
        finished = run_observer(tmp_path_factory.mktemp(name), construct_id=name, template=template)
        found[name] = Measured(
            answers_of(finished),
            finished.document("certificate.json"),
            finished.document("scores/aggregate.json"),
        )
    return found


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as the page has it."""
    titles = list(header)
    rule = "|---" * len(titles) + "|"
    lines = [titles, *([str(cell) for cell in row] for row in rows)]
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([shown[0], rule, *shown[1:]]) + "\n"


@pytest.mark.parametrize(("part", "classes"), [("canvas", CANVASES), ("signal", SIGNALS)])
def test_the_confusion_matrices_are_those_of_the_run(
    measured: dict[str, Measured], part: str, classes: tuple[str, ...]
) -> None:
    answers = measured[OBSERVER].answers
    pairs = Counter((label[part], answers[name][part]) for name, label in GOLD.items())
    rows = [
        [f"**`{labelled}`**", *counts, sum(counts)]
        for labelled in classes
        for counts in [[pairs[labelled, answered] for answered in classes]]
    ]
    assert sum(pairs.values()) == 148
    assert table(["label ↓ answer →", *(f"`{one}`" for one in classes), "all"], rows) in PAGE


def test_the_scores_beside_the_baselines_are_those_of_the_runs(
    measured: dict[str, Measured],
) -> None:
    def cells(name: str) -> list[str]:
        certificates = [measured[construct].certificate for construct in NAMES]
        found = [one["scores"].get(name, one["composite_score"]) for one in certificates]
        intervals = [one["score_intervals"][name] for one in certificates]
        return [
            f"{score:.3f} ({interval['low']:.3f} … {interval['high']:.3f})"
            for score, interval in zip(found, intervals, strict=True)
        ]

    criteria = measured[OBSERVER].certificate["criteria"]["criteria_ids"]
    rows = [[f"`{name}`", *cells(name)] for name in criteria]
    rows.append(["composite", *cells("composite_score")])
    assert table(["criterion", *(f"`{name}`" for name in NAMES)], rows) in PAGE


def is_right(label: Mapping[str, str], answer: Mapping[str, Any], *parts: str) -> bool:
    return all(answer[part] == label[part] for part in parts)


def test_what_was_right_is_counted_as_in_the_runs(measured: dict[str, Measured]) -> None:
    def labels_right(*parts: str) -> list[int]:
        return [
            sum(is_right(GOLD[name], measured[one].answers[name], *parts) for name in GOLD)
            for one in NAMES
        ]

    records = [
        sum(answer["source"]["record_id"] == name for name, answer in measured[one].answers.items())
        for one in NAMES
    ]
    rows = [
        ["the record, of 163", *records],
        ["the canvas, of 148", *labels_right("canvas")],
        ["the strength, of 148", *labels_right("signal")],
        ["canvas and strength, of 148", *labels_right("canvas", "signal")],
    ]
    assert table(["right", *(f"`{name}`" for name in NAMES)], rows) in PAGE


def test_the_hard_cases_are_counted_as_in_the_run(measured: dict[str, Measured]) -> None:
    answers = measured[OBSERVER].answers
    right = {name: is_right(GOLD[name], answers[name], "canvas", "signal") for name in GOLD}
    kinds = Counter(KIND.values())
    rows = [
        [f"`{kind}`", total, sum(right[name] for name in KIND if KIND[name] == kind)]
        for kind, total in sorted(kinds.items())
    ]
    rows.append(["all hard", len(KIND), sum(right[name] for name in KIND)])
    rows.append(["all other", 148 - len(KIND), sum(right[name] for name in GOLD.keys() - KIND)])
    assert table(["hard case", "labels", "both right"], rows) in PAGE


def test_calibration_is_that_of_the_runs(measured: dict[str, Measured]) -> None:
    calibrations = [measured[name].aggregate["calibration"] for name in NAMES]
    rows = [["Brier score", *(f"{one['brier_score']:.3f}" for one in calibrations)]]
    rows += [
        [f"· {part}", *(f"{one['decomposition'][part]:.4f}" for one in calibrations)]
        for part in ("reliability", "resolution", "uncertainty", "within_bin")
    ]
    rows.append(["ECE", *(f"{one['ece']['value']:.3f}" for one in calibrations)])
    for title, member in (
        ("· expected if calibrated", "expected_if_calibrated"),
        ("· 95 % below, if calibrated", "upper_95_if_calibrated"),
    ):
        rows.append([title, *(f"{one['ece'][member]:.3f}" for one in calibrations)])
    assert table(["calibration", *(f"`{name}`" for name in NAMES)], rows) in PAGE


def test_the_tier_and_what_the_next_one_needs_are_those_of_the_certificate(
    measured: dict[str, Measured],
) -> None:
    certificate = measured[OBSERVER].certificate
    assert f"**{certificate['verification_tier']}**" in PAGE
    needed = PAGE.partition("## The tier")[2].partition("\n## ")[0]
    assert [line.split("`")[1] for line in needed.splitlines() if line.startswith("- `")] == (
        certificate["caps"]
    )


def sealed_dates() -> dict[str, Any]:
    with tarfile.open(DOCS / "evidence" / "product_observer_v1.tar.xz") as archive:
        sealed = archive.extractfile("product_observer_v1/certificate.json")
        assert sealed is not None
        certificate = json.loads(sealed.read())
    return {name: certificate[name] for name in ("theatre_resolved_at", "expires_at")}


@pytest.mark.parametrize("name", ["criteria", "reliability"])
def test_the_pictures_show_the_numbers_of_the_run(measured: dict[str, Measured], name: str) -> None:
    found = measured[OBSERVER]
    # The picture names the days of the published run; its scores have to be those of this one.
    published = {**found.certificate, **sealed_dates()}
    drawn = certificate_pictures(found.aggregate, published)[f"{name}.svg"]
    shown = (DOCS / "images" / f"observer-{name}.svg").read_text(encoding="utf-8")
    assert shown == drawn
