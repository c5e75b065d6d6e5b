"""`echelon demo` over HTTP: what its pages and its document show, and what its bundles hold."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.demonstration import Demonstration
from tests.theatre.echelon_process import CARTOGRAPH, echelon
from theatre.api.connections import replace_construct
from theatre.cli.demo.command import OPENING
from theatre.cli.demo.stage import FORGED_FILE
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.transparency.notes import SignedCheckpoint
from theatre.transparency.trust import Trust

OBSERVER = CARTOGRAPH.with_name("product_observer_v1.json")
EASEL = CARTOGRAPH.with_name("product_easel_v1.json")
TEMPLATES = {"cartograph": CARTOGRAPH, "observer": OBSERVER, "easel": EASEL}
RATINGS = CARTOGRAPH.parents[1] / "ratings" / "product_easel_v1"
COMMITMENTS = {
    name: template.with_name(f"{template.stem}.commitment.txt").read_text().strip()
    for name, template in TEMPLATES.items()
}
BASELINES = ["observer_majority", "observer_keywords"]
REVIEWERS = ["demo-reviewer-a", "demo-reviewer-b"]


def bundle_of(told: dict[str, Any]) -> Path:
    return Path(told["bundle_path"])


def test_the_demo_succeeds_and_leaves_nothing_but_its_folder(demonstration: Demonstration) -> None:
    assert demonstration.code == 0, demonstration.shown
    assert demonstration.left == []
    assert {path.name for path in demonstration.folder.iterdir()} == {
        *("bundles", "certificates", "constructs.toml", "evidence", "keys", "lock"),
        *("monitor", "pages.txt", "people.json", "plots", "postgres", "rewritten", "service.log"),
        *("report.html", "trust", "trust.json"),
    }
    for name in ("people.json", "keys/tokens.json", "trust/issuer.pem", "trust/log.pem"):
        assert stat.S_IMODE((demonstration.folder / name).stat().st_mode) == 0o600


def test_the_demo_numbers_its_pages_and_says_how_it_ended(demonstration: Demonstration) -> None:
    for printed in (demonstration.shown, demonstration.pages):
        headings = [line for line in printed.splitlines() if line.startswith("── ")]
        numbers = [re.match(r"── (\d+)/10  .{2,66} +\d+ s$", line) for line in headings[:-1]]
        assert [found and int(found[1]) for found in numbers] == list(range(1, 11))
        assert headings[-1] == (
            "── Bundles passed; forgery and rewritten log were seen. Nothing is left running."
        )


def test_what_the_demo_prints_fits_a_terminal_and_begins_with_what_it_is(
    demonstration: Demonstration,
) -> None:
    lines = demonstration.shown.splitlines()
    assert lines[0] == demonstration.pages.splitlines()[0] == OPENING
    assert len(lines) <= 60
    assert [line for line in lines if len(line) > 80] == []


def test_what_the_demo_prints_says_in_short_what_its_document_holds(
    demonstration: Demonstration,
) -> None:
    told, shown = demonstration.told, demonstration.shown
    for name in ("observer", *BASELINES):
        one = told.get(name) or told["baselines"][name]
        score = f"{one['certificate']['composite_score']:.3f}"
        assert re.search(rf"^{name} +{score} +\S+ … \S+$", shown, re.MULTILINE)
    for criterion, score in told["cartograph"]["certificate"]["scores"].items():
        assert re.search(rf"^{criterion} +{score:.3f} ", shown, re.MULTILINE)
    tiers = [told[name]["certificate"]["verification_tier"] for name in TEMPLATES]
    assert re.findall(r"^tier +(\w+), not ", shown, re.MULTILINE) == tiers
    failed = [one["id"] for one in told["forgery"]["checks"] if one["status"] == "fail"]
    assert f"FAIL {', '.join(failed)} forged not valid ({len(failed)} failed" in (
        " ".join(shown.split())
    )
    trusted = {
        name: (one["effective_tier"], one["routing_class"]) for name, one in told["routing"].items()
    }
    rows = re.findall(r"^(\w+) +(\w+) +(baseline|mid)  ", shown, re.MULTILINE)
    assert {name: (tier, routing) for name, tier, routing in rows} == trusted


@pytest.mark.parametrize(("page", "name"), [(2, "cartograph"), (4, "observer"), (6, "easel")])
def test_the_demo_shows_the_certificates_that_are_in_the_bundles(
    demonstration: Demonstration, page: int, name: str
) -> None:
    shown, told = demonstration.page(page), demonstration.told[name]
    certificate = json.loads((bundle_of(told) / "certificate.json").read_bytes())
    assert f"certificate  {certificate['certificate_id']}" in shown
    assert f"commitment   {COMMITMENTS[name]}" in shown
    assert f"results      {certificate['results_hash']}" in shown
    assert f"tier         {certificate['verification_tier']}" in shown
    for criterion, score in certificate["scores"].items():
        assert re.search(rf"^{criterion}  +{score:.3f}  ", shown, re.MULTILINE)
    missing = re.findall(r"^  missing for \w+: (\S+) ", shown, re.MULTILINE)
    assert missing == certificate["caps"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_run_over_http_comes_to_the_results_that_are_published(
    demonstration: Demonstration, name: str
) -> None:
    path = TEMPLATES[name].with_name(f"{TEMPLATES[name].stem}.expected.json")
    published, told = json.loads(path.read_bytes()), demonstration.told[name]
    assert told["theatre"]["commitment_hash"] == COMMITMENTS[name]
    if name != "easel":
        assert told["certificate"]["results_hash"] == published["results_hash"]
        return
    # The coin of each run draws the answers that people rate, and with them one criterion's score.
    certificate = json.loads((bundle_of(told) / "certificate.json").read_bytes())
    of_machines = {*certificate["scores"]} - {"downstream_compliance"}
    assert {one: certificate["scores"][one] for one in of_machines} == {
        one: published["scores"][one] for one in of_machines
    }


def test_the_demo_shows_what_it_asked_and_what_the_service_answered(
    demonstration: Demonstration,
) -> None:
    shown = demonstration.page(2)
    assert f"theatre    {demonstration.told['cartograph']['theatre']['id']}" in shown
    rows = [re.split(r"  +", line) for line in shown.splitlines() if "/theatres" in line]
    assert [row[:2] for row in rows] == [
        ["POST /theatres", "201"],
        ["POST /theatres/{id}/commit", "200"],
        ["POST /theatres/{id}/run", "202"],
        ["GET /theatres/{id}/events", "200"],
        ["GET /theatres/{id}/evidence-bundle", "200"],
    ]
    assert rows[3][2:] == ["ARCHIVED", "240/240", "certified"]


def test_the_demo_says_how_far_the_observers_confidence_can_be_trusted(
    demonstration: Demonstration,
) -> None:
    assert "calibration" not in demonstration.page(2)
    assert (
        "calibration  Brier 0.215 (n = 148), ECE 0.122 (if calibrated: 0.076 expected, "
        "95 % below 0.115)" in demonstration.page(4).splitlines()
    )


def test_the_demo_shows_two_baselines_with_their_intervals_beside_the_observer(
    demonstration: Demonstration,
) -> None:
    lines = demonstration.page(4).partition("\ncriterion                    observer ")[1:]
    table = [re.split(r"  +", line) for line in "".join(lines).splitlines() if line]
    assert table[0] == ["criterion", "observer", *BASELINES]
    rows = {row[0]: row[1:] for row in table[2:]}
    told = {"observer": demonstration.told["observer"], **demonstration.told["baselines"]}
    for name in ("source_fidelity", "signal_classification", "canvas_enrichment_freshness"):
        assert rows.pop(name) == [
            f"{one['scores'][name]:.3f} "
            f"({one['score_intervals'][name]['low']:.3f} … "
            f"{one['score_intervals'][name]['high']:.3f})"
            for one in (run["certificate"] for run in told.values())
        ]
    assert [cell.split()[0] for cell in rows.pop("composite")] == ["0.467", "0.151", "0.164"]
    assert rows == {}


def recorded_ratings() -> dict[str, dict[str, float]]:
    """Return what the files beside the fixtures hold: reviewer → episode → score."""
    return {
        path.stem: {
            line["episode_id"]: line["score"]
            for line in map(json.loads, path.read_bytes().splitlines())
        }
        for path in RATINGS.glob("*.jsonl")
    }


def test_easels_run_stops_at_the_rubric_which_the_demo_shows_with_one_of_the_answers(
    demonstration: Demonstration,
) -> None:
    shown = demonstration.page(5)
    rating = json.loads(EASEL.read_bytes())["hitl_steps"][0]
    assert "SETTLING  85/85  waits for judge_taste" in shown
    first = " ".join(rating["rubric"].split("\n\n")[0].split())
    assert f"rubric {first} …" in " ".join(shown.split())
    for point, label in rating["scoring_scale"]["labels"].items():
        assert re.search(rf"^ +{point}  {re.escape(label)}$", shown, re.MULTILINE)
    assert "asked of  at least 2 people, of whom none is an author, about each of 24" in shown
    (item,) = re.findall(r"^item      (\S+)$", shown, re.MULTILINE)
    assert item == next(iter(demonstration.told["ratings"]["demo-reviewer-a"]))
    for part in ("brief", "wants", "avoids"):
        assert re.search(rf"^{part} {{4,5}}\S", shown, re.MULTILINE)


def test_two_stand_ins_who_are_named_so_score_every_item_as_users_of_their_own(
    demonstration: Demonstration,
) -> None:
    recorded, given = recorded_ratings(), demonstration.told["ratings"]
    shown = " ".join(demonstration.page(6).split())
    for name, scores in given.items():
        assert f"{name} {' '.join(f'{score:g}' for score in scores.values())}" in shown
        rated_then = scores.keys() & recorded[name].keys()
        assert {one: scores[one] for one in rated_then} == {
            one: recorded[name][one] for one in rated_then
        }
    assert {len(scores) for scores in given.values()} == {24}
    assert f"users      demo-author, {', '.join(REVIEWERS)}" in demonstration.page(1)


def test_easels_certificate_tells_who_scored_and_where_decisions_were_lost(
    demonstration: Demonstration,
) -> None:
    lines = demonstration.page(6).splitlines()
    (people,) = [n for n, line in enumerate(lines) if line.startswith("people       judge_taste: ")]
    agreement = r", alpha -?\d\.\d{3}; share 0\.2 of downstream_compliance, machine 0\.938"
    assert re.search(agreement, lines[people])
    assert lines[people + 1].split() == ["they", "are", "demo-reviewer-a,", "demo-reviewer-b"]
    assert [line.split()[1] for line in lines if line.startswith("with  ")] == ["artisan"]
    (start,) = [n for n, line in enumerate(lines) if line.startswith("hop ")]
    assert [line.split() for line in lines[start + 2 : start + 5]] == [
        ["easel", "451", "50", "0", "23", "-", "-"],
        ["artisan", "451", "0", "0", "0", "409", "0"],
        ["mint", "451", "0", "0", "0", "498", "0"],
    ]


def test_anybody_gets_the_certificate_that_was_issued_and_the_tier_of_now(
    demonstration: Demonstration,
) -> None:
    shown = demonstration.page(7).partition("\n\n")[0]
    for name in TEMPLATES:
        told = demonstration.told[name]
        issued = Path(told["certificate_path"]).read_bytes()
        assert sha256_hex(issued.removesuffix(b"\n")) == told["certificate"]["document_sha256"]
        assert issued == (bundle_of(told) / "certificate.json").read_bytes()
        row = rf"^{name} +{told['certificate']['certificate_id']} +(\w+) "
        assert re.findall(row, shown, re.MULTILINE) == [told["certificate"]["verification_tier"]]
        assert told["certificate"]["status"] == "current"
        assert told["certificate"]["run_by"] == "demo-author"
    rows = [re.split(r"  +", line) for line in shown.splitlines()]
    assert {row[0]: row[2::2] for row in rows if row[0] in BASELINES} == {
        "observer_majority": ["UNVERIFIED", "template not accepted"],
        "observer_keywords": ["UNVERIFIED", "not run by its owner"],
    }


def test_a_router_trusts_what_the_operator_accepts_and_is_told_why_not_the_rest(
    demonstration: Demonstration,
) -> None:
    told = {
        name: (one["effective_tier"], one["routing_class"], one["effective_review"], one["reasons"])
        for name, one in demonstration.told["routing"].items()
    }
    assert told == {
        "cartograph": ("UNVERIFIED", "baseline", "full", ["issued-unverified"]),
        "observer": ("BACKTESTED", "mid", "skip", []),
        "easel": ("BACKTESTED", "mid", "skip", []),
        "observer_majority": ("UNVERIFIED", "baseline", "full", ["template-not-accepted"]),
        "observer_keywords": ("UNVERIFIED", "baseline", "full", ["construct-not-registered"]),
    }
    routing = demonstration.page(7).partition("\n\n")[2]
    *shown, log = [re.split(r"  +", line) for line in routing.splitlines() if line][3:]
    assert [row[-1] for row in shown] == [
        "its own certificate says UNVERIFIED",
        "as certified",
        "as certified",
        "template not accepted",
        "nobody has claimed it",
    ]
    assert log == ["log", "10 entries, no fault: a monitor has read all of them"]


def test_the_demo_finds_honest_bundles_sound_and_names_what_is_wrong_with_the_forged_one(
    demonstration: Demonstration,
) -> None:
    honest, forged = demonstration.page(8), demonstration.page(3)
    assert re.findall(r"^(\w+) +(\d+) +(\d+) +(\w+, \w+)$", honest, re.MULTILINE) == [
        (name, "38", "0", "valid, logged") for name in TEMPLATES
    ]
    as_it_came = "as it came valid (equal to the certificate you gave): 38 checks\n"
    assert forged.startswith(f"{as_it_came}changed    {FORGED_FILE}\n")
    failed = re.findall(r"^FAIL  (\S+)$", forged, re.MULTILINE)
    assert set(failed) >= {"inventory", "sums", "audit-episodes", "scores"}
    assert forged.endswith(f"not valid ({len(failed)} failed, 0 could not be made): 38 checks\n")


def test_the_demo_draws_all_three_and_says_where(demonstration: Demonstration) -> None:
    drawn = [
        *("cartograph/criteria.svg", "observer/criteria.svg", "observer/reliability.svg"),
        "easel/criteria.svg",
    ]
    shown = re.findall(r"^picture    (\S+)$", demonstration.page(8), re.MULTILINE)
    assert shown == [f".echelon/demo/plots/{name}" for name in drawn]
    assert {*(demonstration.folder / "plots").glob("*/*")} == {
        demonstration.folder / "plots" / name for name in drawn
    }


def test_the_demo_as_a_document_holds_everything_that_it_shows(
    demonstration: Demonstration,
) -> None:
    told = demonstration.told
    assert set(told) == {
        *(
            *("home", "report", "seconds", "baselines", "ratings", "routing", "forgery"),
            *("stranger", "fork"),
        ),
        *TEMPLATES,
    }
    assert told["home"] == str(demonstration.folder)
    for name in TEMPLATES:
        assert set(told[name]) == {
            *("theatre", "certificate", "bundle_path", "certificate_path", "check", "plots")
        }
        assert told[name]["theatre"]["state"] == "ARCHIVED"
        assert told[name]["theatre"]["outcome"] == "certified"
        assert told[name]["check"]["verdict"] == "valid, logged"
        assert all(Path(path).is_file() for path in told[name]["plots"])
    assert {name: one["theatre"]["outcome"] for name, one in told["baselines"].items()} == (
        dict.fromkeys(BASELINES, "certified")
    )
    assert told["forgery"]["verdict"] == "not valid"


def differences(one: Any, other: Any, place: str = "") -> set[str]:  # noqa: ANN401 - any JSON
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() | other.keys()
        return {
            found
            for name in names
            for found in differences(one.get(name), other.get(name), f"{place}/{name}")
        }
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        items = enumerate(zip(one, other, strict=True))
        return {found for n, pair in items for found in differences(*pair, f"{place}/{n}")}
    return set() if one == other else {place}


def test_a_baseline_is_measured_by_the_same_template_but_for_who_is_measured(
    demonstration: Demonstration,
) -> None:
    template = parse_object(OBSERVER.read_bytes())
    for name in BASELINES:
        told = demonstration.told["baselines"][name]
        committed: JsonObject = parse_object((bundle_of(told) / "template.json").read_bytes())
        version = told["certificate"]["construct_version"]
        assert committed == replace_construct(template, name, version=version)
        assert differences(template, committed) == {
            "/version_pins/constructs/observer",
            f"/version_pins/constructs/{name}",
            "/resolution_programme/0/construct_id",
            "/product_theatre_config/construct_under_test",
            "/product_theatre_config/adapter_endpoint",
        }


def test_the_commands_that_the_demo_names_check_its_bundles(
    demonstration: Demonstration, tmp_path: Path
) -> None:
    shown = demonstration.page(8).replace(" \\\n", " ")
    commands = re.findall(r"^echelon (check .*)$", shown, re.MULTILINE)
    assert len(commands) == len(TEMPLATES)
    cwd = Path(demonstration.home).parent
    checked = echelon(*commands[0].split(), home=tmp_path / "home", cwd=cwd)
    assert checked.code == 0
    assert "\nvalid, logged (" in checked.stdout


def test_a_stranger_without_our_software_learns_who_signed_and_that_it_was_logged(
    demonstration: Demonstration,
) -> None:
    assert demonstration.told["stranger"] == {
        "openssl": "Verified OK",
        "verify_bundle": "valid, logged",
    }
    assert "openssl    Verified OK: " in demonstration.page(9)


def test_a_run_that_is_dropped_with_all_keys_is_seen_by_the_monitor(
    demonstration: Demonstration,
) -> None:
    folder, page = demonstration.folder, demonstration.page(10)
    assert "the log was rewritten" in demonstration.told["fork"]
    assert "FORK, both checkpoints kept below .echelon/demo/monitor" in page
    (evidence,) = folder.glob("monitor/*/fork-*")
    trust = Trust.parse((folder / "trust.json").read_bytes())
    seen, shown = [
        SignedCheckpoint.verify((evidence / name).read_bytes(), [trust.log]).checkpoint
        for name in ("seen", "shown")
    ]
    assert (seen.size, seen.root == shown.root) == (shown.size, False)
    dropped = demonstration.told["cartograph"]["theatre"]["id"].encode()
    entries = b"".join(one.read_bytes() for one in folder.glob("rewritten/tile/entries/**/*[0-9]"))
    assert dropped not in entries
