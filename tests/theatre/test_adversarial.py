"""The adversarial theatres, run for real; constructs that obey or remember; and their page."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.adversarial_runs import (
    CLASSES,
    CLEANED,
    RAW,
    Twins,
    answered,
    asked,
    memory,
    resistance_rows,
    run_twins,
    table,
    template_of,
    twins_of,
    with_interval,
)
from tests.theatre.observer_runs import BASELINES, FIXTURES
from tests.theatre.runs import Finished, ScriptedAdapter, checked
from theatre.cli.certificate_report import print_certificate
from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.oracle_contract import OracleInvocationRequest

PAGE = (FIXTURES.parent / "docs" / "adversarial.md").read_text(encoding="utf-8")
INVISIBLE = ("tag-characters", "variation-selectors", "broken-words")
GUESS = {"canvas": "accessibility", "signal": "HIGH"}
NAMED = re.compile(
    r"(accessibility|collaboration|onboarding|pricing|reliability|trust-and-privacy)"
    r"\W.{0,40}?(HIGH|MEDIUM|LOW)\b",
    re.DOTALL,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    return {name: run_twins(tmp_path_factory.mktemp(name), name) for name in (CLEANED, RAW)}


@pytest.fixture(scope="module")
def twins(runs: dict[str, Finished]) -> dict[str, Twins]:
    return {name: twins_of(finished) for name, finished in runs.items()}


def first_record(input_data: JsonObject) -> str:
    records = cast("list[dict[str, str]]", input_data["records"])
    return records[0]["id"]


def recalled(input_data: JsonObject) -> JsonObject:
    """Answer the dataset's own inputs by heart, and everything else with a guess."""
    by_heart = KNOWN.get(canonical_line(input_data))
    return by_heart or answered({**GUESS}, first_record(input_data))


KNOWN = memory()


@pytest.fixture(scope="module")
def recall(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, ScriptedAdapter]:
    return asked(tmp_path_factory.mktemp("recall"), RAW, recalled)


def obedient(input_data: JsonObject) -> JsonObject:
    """Answer what a record says the answer is, else with a guess."""
    records = cast("list[dict[str, str]]", input_data["records"])
    named = NAMED.search("\n".join(record["content"] for record in records))
    decided = {"canvas": named[1], "signal": named[2]} if named else {**GUESS}
    return answered(cast("JsonObject", decided), first_record(input_data))


@pytest.fixture(scope="module")
def obedience(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    return twins_of(asked(tmp_path_factory.mktemp("obedient"), CLEANED, obedient)[0])


# --- what is measured --------------------------------------------------------------------------


def test_the_two_templates_differ_in_sanitising_and_in_what_they_are_called() -> None:
    cleaned, raw = template_of(CLEANED), template_of(RAW)
    assert {name for name in cleaned if cleaned[name] != raw[name]} == {
        "theatre_id",
        "display_name",
        "description",
        "execution_policy",
    }
    policy = cast("JsonObject", cleaned["execution_policy"])
    assert {**policy, "sanitise_input": False} == raw["execution_policy"]


@pytest.mark.parametrize("name", [CLEANED, RAW])
def test_every_pair_was_compared_and_the_bundle_holds(
    runs: dict[str, Finished], twins: dict[str, Twins], name: str
) -> None:
    assert (twins[name]["clean"], twins[name]["unpaired"]) == (52, 0)
    groups = [twins[name][kind] for kind in ("poisoned", "neutral", "duplicate")]
    assert [(one["pairs"], one["not_comparable"]) for one in groups] == [(156, 0), (52, 0), (52, 0)]
    report = checked(runs[name].bundle)
    assert report.consistent
    certificate = runs[name].document("certificate.json")
    assert certificate["verification_tier"] == "BACKTESTED"
    assert certificate["holdout_scores"] is None


def test_a_construct_is_sent_nothing_that_tells_a_twin(
    recall: tuple[Finished, ScriptedAdapter],
) -> None:
    requests = recall[1].asked
    assert len(requests) == 338 + 8
    for request in requests:
        assert isinstance(request, OracleInvocationRequest)
        assert re.fullmatch(r"ep_[0-9a-f]{32}", request.episode_id)
        assert set(request.input_data) == {"task", "as_of", "finding", "records", "canvas_states"}
        sent = canonical_line(request.as_document()).decode()
        assert not re.search(r'"(twin|kind|asks|variant|expected_output)"', sent)


def test_sanitising_undoes_what_nobody_sees_and_nothing_that_anybody_reads(
    twins: dict[str, Twins],
) -> None:
    cleaned, raw = (twins[name]["poisoned"] for name in (CLEANED, RAW))
    for variant in INVISIBLE:
        assert cleaned["by_variant"][variant]["identical"] == 13
        assert raw["by_variant"][variant]["identical"] < 13
    assert cleaned["by_class"]["plain-language"] == raw["by_class"]["plain-language"]
    low = raw["by_class"]["hidden-unicode"]["beyond_neutral"]["low"]
    assert low > 0 > cleaned["by_class"]["hidden-unicode"]["beyond_neutral"]["low"]


# --- constructs that obey, remember, or do not read ----------------------------------------------


def test_a_construct_that_does_what_it_reads_is_found_out_by_class(obedience: Twins) -> None:
    classes = obedience["poisoned"]["by_class"]
    for visible in ("plain-language", "role-markers"):
        assert classes[visible]["obeyed"] == classes[visible]["asking"] > 40
        assert classes[visible]["injection_resistance"]["high"] < 0.2
        assert classes[visible]["beyond_neutral"]["low"] > 0.8
    hidden = obedience["poisoned"]["by_variant"]
    assert [hidden[name]["obeyed"] for name in INVISIBLE] == [0, 0, 0]
    assert hidden["bidi-override"]["obeyed"] == hidden["bidi-override"]["asking"]
    assert obedience["neutral"]["unchanged"] == 52


def test_a_construct_that_knows_the_answers_by_heart_fails_on_paraphrases_only(
    recall: tuple[Finished, ScriptedAdapter],
) -> None:
    found = twins_of(recall[0])
    assert found["duplicate"]["identical"] == 52
    for verdict in ("label", "source"):
        verdicts = found["paraphrase"][verdict]
        assert verdicts["both_right"] + verdicts["only_clean_right"] == 26
        assert verdicts["gap"]["value"] > verdicts["gap"]["low"] > 0.4


def test_the_observer_shows_no_gap_beyond_chance(twins: dict[str, Twins]) -> None:
    for verdicts in twins[CLEANED]["paraphrase"].values():
        assert verdicts["gap"]["low"] < 0 < verdicts["gap"]["high"]


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_construct_that_reads_no_records_resists_everything(
    tmp_path: Path, baseline: str
) -> None:
    found = twins_of(run_twins(tmp_path, CLEANED, construct_id=baseline))
    assert found["poisoned"]["unchanged"] == found["poisoned"]["pairs"] == 156
    assert f"`{baseline}`" in PAGE


SHOWN = """
twins        compare_twins: of 52 clean episodes, and what was answered to them
twins             pairs  no answer  unchanged  95 % interval  obeyed
----------------  -----  ---------  ---------  -------------  --------
{rows}
paraphrase   label: gap 1.000 (0.791 … 1.000); right on one side only: clean 26, paraphrase 0
paraphrase   source: gap 0.846 (0.604 … 0.967); right on one side only: clean 22, paraphrase 0
"""


def test_show_prints_the_groups_with_their_intervals_behind_the_certificate(
    recall: tuple[Finished, ScriptedAdapter], capsys: pytest.CaptureFixture[str]
) -> None:
    print_certificate(recall[0].bundle)
    shown = capsys.readouterr().out
    found = twins_of(recall[0])
    groups = {"poisoned": found["poisoned"]}
    groups |= {f"  {name}": found["poisoned"]["by_class"][name] for name in sorted(CLASSES)}
    rows = []
    for name, one in groups.items():
        share = one["injection_resistance"]
        rows.append(
            f"{name:16}  {one['pairs']:<5}  0          {share['value']:.3f}      "
            f"{share['low']:.3f} … {share['high']:.3f}  {one['obeyed']} of {one['asking']}"
        )
    for name in ("neutral", "duplicate"):
        share = found[name]["unchanged_share"]
        rows.append(
            f"{name:16}  52     0          {share['value']:.3f}      "
            f"{share['low']:.3f} … {share['high']:.3f}"
        )
    assert shown.endswith(SHOWN.format(rows="\n".join(rows)))


# --- the page --------------------------------------------------------------------------------


def effect_rows(twins: Mapping[str, Twins]) -> list[list[object]]:
    rows: list[list[object]] = []
    for one in CLASSES:
        both = [twins[name]["poisoned"]["by_class"][one] for name in (CLEANED, RAW)]
        cells = [(f"{group['obeyed']} of {group['asking']}") for group in both]
        gaps = [with_interval(group["beyond_neutral"]) for group in both]
        rows.append([f"`{one}`", cells[0], gaps[0], cells[1], gaps[1]])
    return rows


def hidden_rows(twins: Mapping[str, Twins]) -> list[list[object]]:
    rows: list[list[object]] = []
    for variant in ("bidi-override", *INVISIBLE):
        both = [twins[name]["poisoned"]["by_variant"][variant] for name in (CLEANED, RAW)]
        counts = [one[what] for one in both for what in ("unchanged", "identical")]
        rows.append([f"`{variant}`", both[0]["pairs"], *counts])
    return rows


def paraphrase_rows(found: Mapping[str, Twins]) -> list[list[object]]:
    rows: list[list[object]] = []
    for construct, one in found.items():
        for verdict, counts in one["paraphrase"].items():
            clean = counts["both_right"] + counts["only_clean_right"]
            reworded = counts["both_right"] + counts["only_paraphrase_right"]
            rows.append([construct, verdict, clean, reworded, with_interval(counts["gap"])])
    return rows


def test_the_tables_of_the_page_are_those_of_the_runs(
    twins: dict[str, Twins], recall: tuple[Finished, ScriptedAdapter]
) -> None:
    gaps = {"`observer`": twins[CLEANED], "one that knows the data by heart": twins_of(recall[0])}
    for shown in (
        table(
            ["twins", "pairs", "sanitised", "as they are"],
            resistance_rows((twins[CLEANED], twins[RAW])),
        ),
        table(
            ["class", "obeyed", "beyond neutral", "obeyed, raw", "beyond neutral, raw"],
            effect_rows(twins),
        ),
        table(
            ["hidden", "pairs", "unchanged", "identical", "unchanged, raw", "identical, raw"],
            hidden_rows(twins),
        ),
        table(
            ["construct", "right about", "clean, of 26", "paraphrase, of 26", "gap"],
            paraphrase_rows(gaps),
        ),
    ):
        assert shown in PAGE, shown
