"""`echelon disclose` and `echelon audit`: what is opened is under the root, and computed again."""

import asyncio
import hashlib
import hmac
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from math import comb
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from tests.sealed_evidence import unpacked
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    document,
    episode_leaves,
    episode_root,
    lines,
    load,
    resealed,
    store,
    tree_root,
    with_document,
    with_lines,
    with_records,
)
from tests.theatre.forged_bundle import records_of as recorded
from tests.theatre.runs import (
    COIN,
    ERROR,
    LATE,
    REFUSED,
    WRONG,
    ScriptedAdapter,
    answer_as_asked,
    checked,
    episodes,
    pilot_stage,
)
from theatre.api.issuer_log import append_entries
from theatre.cli import cli
from theatre.cli.audits import check_disclosure, salted_lines
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.engine.bundle_check import CheckReport, CheckStatus, Verdict
from theatre.engine.bundle_check.arithmetic import tier
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.bundle_check.verifier import verifier_source
from theatre.engine.canonical_json import JsonObject, canonical_bytes, canonical_line, parse_object
from theatre.engine.coin import Coin
from theatre.engine.errors import NotFoundError
from theatre.files.trust_home import TrustHome
from theatre.transparency.audits import AuditRequest, most_false
from theatre.transparency.disclosure import Disclosure, Opening, SaltedLine, disclose
from theatre.transparency.errors import AuditError, DisclosureError

LINES = "scores/per_episode.jsonl"
TOTAL = 12


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return the bundle of twelve episodes, of which the third is answered wrongly."""
    asked = {3: WRONG, 5: REFUSED, 7: ERROR}
    stage = pilot_stage(tmp_path_factory.mktemp("run"), episodes(TOTAL, asked))
    return load(stage.run(ScriptedAdapter(answer_as_asked)).bundle)


@pytest.fixture
def bundle(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the bundle as a folder; the user who asks and answers has a log of his own."""
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "trust"))
    return store(files, tmp_path / "bundle")


def certificate_of(files: Files) -> JsonObject:
    return document(files, "certificate.json")


def held(files: Files) -> list[SaltedLine]:
    return [SaltedLine(line, salt) for salt, line, _ in episode_leaves(files)]


def opened(files: Files, *seqs: int) -> Disclosure:
    return disclose(certificate_of(files), document(files, "template.json"), held(files), seqs)


def echelon(*arguments: object) -> tuple[int, Any]:
    """Run a command with `--json`; return its exit code and its document."""
    ended = CliRunner().invoke(cli, [*map(str, arguments), "--json"])
    if isinstance(ended.exception, CommandEndedError):
        return ended.exception.code, json.loads(ended.output)
    if ended.exception is not None:
        raise ended.exception
    return 0, json.loads(ended.output)


def test_what_is_opened_is_computed_again_and_the_rest_is_withheld(
    bundle: Path, tmp_path: Path
) -> None:
    certificate, shown = bundle / "certificate.json", tmp_path / "shown.json"
    echelon("disclose", bundle, "--episodes", "pilot-3,5,7, 1", "--output", shown)
    code, checked = echelon("audit", "check", certificate, shown)
    assert (code, checked["opened"], checked["withheld"]) == (0, [1, 3, 5, 7], TOTAL - 4)
    assert (checked["false"], checked["unavailable"], checked["audit"]) == ([], [], None)
    # Of the others not even an id is in the file, nor the coin that salts them.
    data = shown.read_bytes()
    assert b"pilot-3" in data
    assert b"pilot-4" not in data
    assert (bundle / "coin.txt").read_bytes().strip() not in data
    text = CliRunner().invoke(cli, ["audit", "check", str(certificate), str(shown)]).output
    assert "4 of 12 episodes; the others are withheld" in text
    assert "none: the issuer chose what to open" in text


@pytest.mark.parametrize("name", ["product_easel_requests_v1", "product_debate_control_v1"])
def test_chains_and_plays_are_computed_again(tmp_path: Path, name: str) -> None:
    bundle, shown = unpacked(name, tmp_path), tmp_path / "shown.json"
    echelon("disclose", bundle, "--episodes", "2", "--output", shown)
    code, checked = echelon("audit", "check", bundle, shown)
    assert (code, checked["opened"], checked["false"]) == (0, [2], [])
    if '"seed":""' not in shown.read_text():
        disclosure = Disclosure.parse(shown.read_bytes())
        other = [one._replace(seed="00" * 32) for one in disclosure.openings]
        found = check_disclosure(
            parse_object((bundle / "certificate.json").read_bytes()),
            disclosure._replace(openings=tuple(other)),
        )
        assert [one.seq for one in found.false] == [2]


def test_an_episode_that_is_not_there_cannot_be_opened(bundle: Path, tmp_path: Path) -> None:
    for name in ("pilot-99", "0", "13", "", "²"):
        with pytest.raises(NotFoundError, match="expected an episode of the bundle"):
            echelon("disclose", bundle, "--episodes", name, "--output", tmp_path / "x")


def test_a_bundle_without_its_coin_opens_nothing(bundle: Path, tmp_path: Path) -> None:
    (bundle / "coin.txt").unlink()
    with pytest.raises(DisclosureError, match="expected a whole bundle"):
        echelon("disclose", bundle, "--episodes", "1", "--output", tmp_path / "x")


# What may not be opened: each by its own change to an honest disclosure.

Change = Callable[[tuple[Opening, ...]], list[Opening]]


def raised(one: Opening) -> Opening:
    """Return an opening whose result claims a full score."""
    result = cast("JsonObject", one.line["result"])
    return one._replace(line=one.line | {"result": result | {"composite": 1.0}})


# fmt: off
LIES: list[tuple[str, Change, str]] = [
    ("swapped", lambda o: [o[0]._replace(line=o[1].line), o[1]._replace(line=o[0].line), o[2]],
     "expected episode 2 under the certificate's episode_root"),
    ("swapped with salts", lambda o: [o[0]._replace(line=o[1].line, salt=o[1].salt), *o[2:]],
     "expected episode 2 under the certificate's episode_root"),
    ("re-salted", lambda o: [o[0]._replace(salt=bytes(32)), *o[1:]],
     "expected episode 2 under the certificate's episode_root"),
    ("re-ordered", lambda o: [o[1], o[0], o[2]], "expected each episode once, in order"),
    ("duplicated", lambda o: [o[0], o[0], *o[1:]], "expected each episode once, in order"),
    ("duplicated elsewhere", lambda o: [o[0], o[0]._replace(seq=4), o[2]], "one id twice"),
    ("at another place", lambda o: [o[0]._replace(seq=1), *o[1:]],
     "expected episode 1 under the certificate's episode_root"),
    ("behind the end", lambda o: [*o[:2], o[2]._replace(seq=13)], "index of one of 12 leaves"),
    ("a better score", lambda o: [o[0], raised(o[1]), o[2]],
     "expected episode 3 under the certificate's episode_root"),
    ("a shorter proof", lambda o: [o[0]._replace(proof=o[0].proof[1:]), *o[1:]], "hashes"),
    ("a longer proof", lambda o: [o[0]._replace(proof=(bytes(32), *o[0].proof)), *o[1:]],
     "hashes"),
]
# fmt: on


@pytest.mark.parametrize(("change", "said"), [row[1:] for row in LIES], ids=[r[0] for r in LIES])
def test_leaves_that_are_not_those_of_the_certificate_are_refused(
    files: Files, change: Change, said: str
) -> None:
    honest = opened(files, 2, 3, 9)
    lying = honest._replace(openings=tuple(change(honest.openings)))
    read = Disclosure.parse(bytes(lying))
    found = check_disclosure(certificate_of(files), read)
    assert found.exit_code is ExitCode.CHECK_FAILED
    assert said in str(found.invalid)
    assert found.results == []


def test_a_tree_without_the_bad_episodes_is_refused(files: Files) -> None:
    """The issuer loses the leaf of the wrong answer, and makes a root over the others."""
    kept = [one for seq, one in enumerate(held(files), 1) if seq != 3]
    with pytest.raises(DisclosureError, match="expected the episodes of the certificate"):
        disclose(certificate_of(files), document(files, "template.json"), kept, [1])
    forged: Any = certificate_of(files)
    forged["episode_root"] = tree_root([one.leaf for one in kept]).hex()
    lost = disclose(forged, document(files, "template.json"), kept, [1, 2])
    found = check_disclosure(certificate_of(files), lost)
    assert "expected the certificate's episode_root" in str(found.invalid)
    named = lost._replace(episode_root=str(certificate_of(files)["episode_root"]))
    found = check_disclosure(certificate_of(files), named)
    assert "expected the certificate's episode_counts/total 12, got 11" in str(found.invalid)
    found = check_disclosure(certificate_of(files), named._replace(episodes=TOTAL))
    assert found.exit_code is ExitCode.CHECK_FAILED


def test_another_template_scores_nothing(files: Files) -> None:
    template: Any = document(files, "template.json")
    template["scoring"]["criteria_scorers"]["recall"]["params"]["tolerance"] = 1.0
    lying = opened(files, 3)._replace(template=template)
    found = check_disclosure(certificate_of(files), lying)
    assert found.invalid == "expected the template that was committed, got another"
    template["schema_version"] = "9"
    found = check_disclosure(certificate_of(files), lying._replace(template=template))
    assert str(found.invalid).startswith("template: ")


def test_a_disclosure_has_one_spelling(files: Files) -> None:
    data = bytes(opened(files, 3))
    assert bytes(Disclosure.parse(data)) == data
    whole = parse_object(data)
    (opening,) = cast("list[JsonObject]", whole["openings"])
    for other in (
        data[:-1],
        data.replace(b'"seq":3', b'"seq":3.0'),
        canonical_line(whole | {"remark": 1}),
        canonical_line(whole | {"form": "another"}),
        canonical_line(whole | {"openings": [opening | {"note": ""}]}),
        canonical_line(whole | {"openings": [opening | {"salt": "AB" * 32}]}),
        canonical_line(whole | {"openings": [opening | {"salt": "ab" * 31}]}),
        canonical_line(whole | {"openings": 1}),
        b"[]\n",
    ):
        with pytest.raises(DisclosureError):
            Disclosure.parse(other)


def members(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member and item of a JSON value, however deep."""
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield (*path, key)
            yield from members(value[key], (*path, key))


def test_no_member_of_a_disclosure_can_be_changed(files: Files) -> None:
    data = bytes(opened(files, 3))
    paths = list(members(json.loads(data)))
    assert len(paths) > 100
    for path in paths:
        whole: Any = json.loads(data)
        place = whole
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = "ab" * 32
        try:
            found = check_disclosure(certificate_of(files), Disclosure.parse(canonical_line(whole)))
        except DisclosureError:
            continue
        assert found.exit_code is ExitCode.CHECK_FAILED, path


# An issuer who seals what is false: the root holds, and the episode does not.


def falsified(files: Files, change: Callable[[Files], Files]) -> Files:
    """Return a bundle whose forger made all hashes and the root anew."""
    return resealed(change(files), Effort.CHAIN)


def raise_score(files: Files) -> Files:
    rows: list[Any] = lines(files, LINES)
    rows[2] |= {"scores": dict.fromkeys(rows[2]["scores"], 1.0), "composite": 1.0}
    return with_lines(files, LINES, rows)


def ask_easier(files: Files) -> Files:
    records: dict[int, Any] = recorded(files)
    records[3]["calls"][0]["request"]["input_data"] = {"seq": 1}
    return with_records(files, records)


def other_version(files: Files) -> Files:
    records: dict[int, Any] = recorded(files)
    response = records[3]["calls"][0]["attempts"][0]["response"]
    response["construct_version"] = "f" * 64
    return with_records(files, records)


def lose_record(files: Files) -> Files:
    records = recorded(files)
    del records[3]
    return with_records(files, records)


def pick_of_two(files: Files) -> Files:
    records: dict[int, Any] = recorded(files)
    records[3]["calls"].append(records[3]["calls"][0])
    return with_records(files, records)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (raise_score, "the result/composite"),
        (ask_easier, "input_data"),
        (other_version, "construct_version"),
        (lose_record, "outcome"),
        (pick_of_two, "calls"),
    ],
)
def test_an_episode_that_was_sealed_false_is_found_once_it_is_open(
    files: Files, tmp_path: Path, change: Callable[[Files], Files], said: str
) -> None:
    forged = store(falsified(files, change), tmp_path / "forged")
    found, salted = salted_lines(forged)
    assert found.certificate["episode_root"] == episode_root(load(forged))
    shown = disclose(found.certificate, found.template, salted, [1, 2])
    assert check_disclosure(found.certificate, shown).exit_code is ExitCode.OK
    shown = disclose(found.certificate, found.template, salted, [2, 3])
    checked = check_disclosure(found.certificate, shown)
    assert (checked.invalid, [one.seq for one in checked.false]) == (None, [3])
    assert said in str(checked.false[0].false)
    assert checked.exit_code is ExitCode.CHECK_FAILED


# Audits.


def asked(bundle: Path, folder: Path, draw: int = 6) -> tuple[Path, Path]:
    """Return the files of a request and of its coin."""
    request = folder / "audit.json"
    code, said = echelon("audit", "request", bundle, "--draw", draw, "--output", request)
    assert (code, said["index"]) == (0, 0)
    return request, Path(said["coin"])


def test_an_audit_that_is_answered_bounds_what_can_be_false(bundle: Path, tmp_path: Path) -> None:
    request, coin = asked(bundle, tmp_path)
    assert coin.stat().st_mode & 0o777 == 0o600
    shown = tmp_path / "shown.json"
    audit = ("--audit", request, "--coin", coin)
    _, opening = echelon("disclose", bundle, *audit, "--output", shown)
    assert opening["episodes"] == echelon("audit", "draw", request, coin)[1]["episodes"]
    code, checked = echelon("audit", "check", bundle, shown, *audit, "--log")
    assert (code, checked["audit"]["missing"]) == (0, [])
    assert checked["audit"]["at_most_false"] == most_false(TOTAL, 6) == 3
    text = CliRunner().invoke(cli, ["audit", "check", *map(str, (bundle, shown, *audit))]).output
    assert "at most 3 of 12 episodes are false (25.0 %), at 95 %" in text
    _, seen = monitored(tmp_path)
    assert (seen["size"], seen["overdue_audits"], seen["faults"]) == (2, [], [])


def monitored(folder: Path) -> tuple[int, Any]:
    """Follow the user's own log as a stranger does."""
    trust = folder / "trust"
    options = ("--trust", trust / "trust.json", "--home", folder / "seen")
    return echelon("monitor", trust / "log", *options)


def test_an_issuer_who_opens_others_than_the_named_gives_no_bound(
    bundle: Path, files: Files, tmp_path: Path
) -> None:
    """The seventh best of seven: what he chose to show says nothing of the rest."""
    request, coin = asked(bundle, tmp_path)
    named = echelon("audit", "draw", request, coin)[1]["episodes"]
    others = [seq for seq in range(1, TOTAL + 1) if seq != named[0]]
    shown = tmp_path / "shown.json"
    shown.write_bytes(bytes(opened(files, *others)))
    code, checked = echelon(
        "audit", "check", bundle, shown, "--audit", request, "--coin", coin, "--log"
    )
    assert (code, checked["audit"]["missing"], checked["audit"]["at_most_false"]) == (
        ExitCode.INCOMPLETE,
        [named[0]],
        None,
    )
    _, seen = monitored(tmp_path)
    assert seen["size"] == 1


def test_an_issuer_who_dodges_is_seen(bundle: Path, tmp_path: Path) -> None:
    request, coin = asked(bundle, tmp_path)
    shown = tmp_path / "shown.json"
    echelon("disclose", bundle, "--episodes", "1", "--output", shown)
    late = AuditRequest.parse(request.read_bytes())
    late = replace(late, open_by=late.open_by.replace(year=2020))
    request.write_bytes(bytes(late))
    home = TrustHome(tmp_path / "trust")
    trust = home.read()
    assert trust is not None
    asyncio.run(append_entries(home, trust, [late.entry()]))
    _, seen = monitored(tmp_path)
    (overdue,) = seen["overdue_audits"]
    assert (overdue["index"], overdue["statement_sha256"]) == (1, late.statement_sha256)
    text = CliRunner().invoke(
        cli, ["audit", "check", *map(str, (bundle, shown, "--audit", request, "--coin", coin))]
    )
    assert "OVERDUE" in text.output
    code, checked = echelon("audit", "check", bundle, shown, "--audit", request, "--coin", coin)
    assert (code, checked["audit"]["overdue"]) == (ExitCode.CHECK_FAILED, True)
    _, told = echelon("disclose", bundle, "--audit", request, "--coin", coin, "--output", shown)
    _, seen = monitored(tmp_path)
    assert (seen["overdue_audits"], len(told["episodes"])) == ([], 6)


def test_what_is_false_is_logged_as_a_dispute(bundle: Path, files: Files, tmp_path: Path) -> None:
    forged = store(falsified(files, raise_score), tmp_path / "forged")
    request, coin = asked(forged, tmp_path, draw=TOTAL)
    audit, shown = ("--audit", request, "--coin", coin), tmp_path / "shown.json"
    echelon("disclose", forged, *audit, "--output", shown)
    _, before = monitored(tmp_path)
    code, checked = echelon("audit", "check", forged, shown, *audit, "--log")
    _, after = monitored(tmp_path)
    assert (code, checked["audit"]["at_most_false"]) == (ExitCode.CHECK_FAILED, None)
    assert after["size"] == before["size"] + 1
    with pytest.raises(AuditError, match="expected a request about episode_root"):
        echelon("audit", "check", bundle, shown, *audit)


# The coin and the bound.

REQUEST = AuditRequest(
    certificate_id="c",
    statement_sha256="12" * 32,
    episode_root="34" * 32,
    episodes=60,
    draw=10,
    coin_sha256=Coin(bytes(32)).sha256,
    open_by=datetime(2027, 1, 1, tzinfo=UTC),
)


def test_a_coin_names_the_smallest_draws() -> None:
    key = hmac.digest(bytes(32), bytes.fromhex("34" * 32), "sha256")
    ranks = {hmac.digest(key, seq.to_bytes(8, "big"), "sha256"): seq for seq in range(1, 61)}
    smallest = [ranks[rank] for rank in sorted(ranks)[:10]]
    assert REQUEST.named(Coin(bytes(32))) == sorted(smallest)
    with pytest.raises(AuditError, match="the coin that the request commits to"):
        REQUEST.named(Coin(b"1" * 32))


@pytest.mark.parametrize(
    "change",
    [
        {"draw": 0},
        {"draw": 61},
        {"episode_root": "34" * 31},
        {"coin_sha256": "AB" * 32},
        {"statement_sha256": ""},
    ],
)
def test_a_request_that_cannot_be_answered_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(AuditError):
        replace(REQUEST, **change)


def test_a_request_has_one_spelling() -> None:
    data = bytes(REQUEST)
    assert AuditRequest.parse(data) == REQUEST
    whole = parse_object(data)
    for other in (
        data[:-1],
        b"[]\n",
        canonical_line(whole | {"more": 1}),
        canonical_line(whole | {"form": "another"}),
        canonical_line(whole | {"draw": True}),
        canonical_line(whole | {"draw": 0}),
        canonical_line(whole | {"open_by": "tomorrow"}),
        canonical_line(whole | {"open_by": "2027-01-01T00:00:00Z"}),
    ):
        with pytest.raises(AuditError):
            AuditRequest.parse(other)


def none_drawn(episodes: int, false: int, drawn: int) -> float:
    """Return the chance that no false episode is among those drawn."""
    return comb(episodes - false, drawn) / comb(episodes, drawn)


@pytest.mark.parametrize(("episodes", "opened"), [(60, 10), (60, 60), (50, 1), (1000, 59), (7, 0)])
def test_the_bound_is_the_exact_one(episodes: int, opened: int) -> None:
    bound = most_false(episodes, opened)
    assert none_drawn(episodes, bound, opened) >= 0.05
    if bound < episodes:
        assert none_drawn(episodes, bound + 1, opened) < 0.05
    with pytest.raises(AuditError):
        most_false(episodes, episodes + 1)


@pytest.mark.parametrize("above", [1, 5])
def test_the_bound_covers(above: int) -> None:
    """With more false episodes than it says, at most one coin in twenty names none of them."""
    bound = most_false(REQUEST.episodes, REQUEST.draw)
    false = set(range(1, bound + above + 1))
    coins = [Coin(hashlib.sha256(b"%d" % number).digest()) for number in range(800)]
    missed = sum(
        false.isdisjoint(replace(REQUEST, coin_sha256=coin.sha256).named(coin)) for coin in coins
    )
    chance = none_drawn(REQUEST.episodes, len(false), REQUEST.draw)
    assert chance < 0.05
    # Four standard deviations of a count of 800.
    assert abs(missed - 800 * chance) < 4 * (800 * chance * (1 - chance)) ** 0.5


# A bundle that is published without what its template withholds.

WITHHELD: dict[str, Any] = {
    "/schema_version": "2.2.0",
    "/product_theatre_config/disclosure": "withheld",
    "/product_theatre_config/withheld": {"episodes": ["pilot-2", "pilot-3", "pilot-12"]},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return the bundle that the issuer keeps."""
    asked = {3: WRONG, 5: REFUSED, 7: ERROR}
    folder = tmp_path_factory.mktemp("withheld")
    stage = pilot_stage(folder, episodes(TOTAL, asked), changes=WITHHELD)
    return load(stage.run(ScriptedAdapter(answer_as_asked)).bundle)


@pytest.fixture(scope="module")
def shown(whole: Files, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return the bundle that others have."""
    folder = tmp_path_factory.mktemp("published")
    _, said = echelon(
        "disclose", store(whole, folder / "whole"), "--published", "--output", folder / "p"
    )
    assert said["withheld"] == [2, 3, 12]
    return load(folder / "p")


def checked_as(files: Files, folder: Path) -> CheckReport:
    return checked(store(files, folder))


def test_the_issuer_keeps_all_and_checks_all(whole: Files, tmp_path: Path) -> None:
    report = checked_as(whole, tmp_path / "whole")
    assert (report.verdict, report.failed) == (Verdict.CONSISTENT, ())
    certificate = certificate_of(whole)
    assert certificate["verification_tier"] == "UNVERIFIED"
    assert "episodes-withheld" in cast("list[str]", certificate["caps"])


def test_a_published_bundle_says_withheld_and_never_more_than_consistent(
    shown: Files, tmp_path: Path
) -> None:
    report = checked_as(shown, tmp_path / "p")
    assert [(line.id, line.actual) for line in report.failed] == []
    assert report.verdict is Verdict.CONSISTENT
    assert report.because == "3 of 12 episodes are withheld: only their issuer has computed them"
    # No signature and no log makes more of it, nor the certificate that a reader kept.
    signed = report._replace(signed_by="a key of the reader's", logged=True)
    assert signed.verdict is Verdict.CONSISTENT
    status = {line.id: line.status for line in report.checks}
    assert status["certificate-fields"] is status["results-hash"] is CheckStatus.PASS
    assert {name for name, one in status.items() if one is CheckStatus.WITHHELD} == {
        *("inventory", "sums", "coin", "datasets", "audit-episodes", "times", "invocations"),
        *("sanitised-input", "version-pins", "outcomes", "scores", "human-scores", "aggregate"),
        *("data-audit", "baselines", "resolution", "tier"),
    }


def test_one_file_of_plain_python_says_the_same_of_it(shown: Files, tmp_path: Path) -> None:
    bundle = store(shown, tmp_path / "p")
    found = verify(bundle, now=LATE)
    assert {name: problems for name, problems in found.problems.items() if problems} == {}
    kept = shown["certificate.json"]
    said = verify(bundle, now=LATE, kept=kept)
    assert (said.word, said.because) == (
        "consistent",
        "3 of 12 episodes are withheld: only their issuer has computed them",
    )
    program = tmp_path / "verify_bundle.py"
    program.write_text(verifier_source())
    ended = subprocess.run(
        [sys.executable, program, bundle], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "NOT MADE datasets: the committed hashes are over whole files" in ended.stdout
    report = checked(bundle)
    made = {line.id for line in report.checks if line.status is not CheckStatus.UNANCHORED}
    assert found.problems.keys() | found.not_made.keys() == made | {"certificate-copy"}


def entry(files: Files, seq: int) -> dict[str, Any]:
    return cast("dict[str, Any]", lines(files, "episodes.jsonl")[seq - 1])


def with_entries(files: Files, change: Callable[[list[Any]], object]) -> Files:
    rows: list[Any] = lines(files, "episodes.jsonl")
    change(rows)
    return with_lines(files, "episodes.jsonl", rows)


def close_another(files: Files) -> Files:
    """Withhold the refusal, too, that was not committed to be withheld."""
    one = entry(files, 5)
    salted = SaltedLine(canonical_bytes(one["line"]), bytes.fromhex(one["salt"]))
    return with_entries(
        files, lambda rows: rows.__setitem__(4, {"seq": 5, "leaf": salted.leaf.hex()})
    )


def swap_leaves(rows: list[Any]) -> None:
    rows[1]["leaf"], rows[2]["leaf"] = rows[2]["leaf"], rows[1]["leaf"]


def drop_last(files: Files) -> Files:
    rows, scored = lines(files, "episodes.jsonl")[:-1], lines(files, LINES)[:-1]
    return with_lines(with_lines(files, "episodes.jsonl", rows), LINES, scored)


def without_the_cap(files: Files) -> Files:
    """Assess anew, without the cap: all else follows."""
    whole: dict[str, Any] = document(files, "tier.json")
    whole["facts"]["extra_caps"].remove("episodes-withheld")
    sealed_at = lines(files, "audit_trail.jsonl")[-1]["at"]
    whole["assessment"] = tier(whole["facts"], whole["history"], resolved_at=str(sealed_at))
    stated = whole["assessment"]
    forged = with_document(files, "tier.json", whole)
    return changed(forged, "certificate.json", lambda c: c.update(caps=stated["caps"]))


def a_better_tier(files: Files) -> Files:
    whole: dict[str, Any] = document(files, "tier.json")
    whole["assessment"]["tier"] = "BACKTESTED"
    forged = with_document(files, "tier.json", whole)
    return changed(forged, "certificate.json", lambda c: c.update(verification_tier="BACKTESTED"))


def with_a_truth_for_a_count(files: Files) -> Files:
    aggregate: dict[str, Any] = document(files, "scores/aggregate.json")
    assert aggregate["episode_counts"]["error"] == 1
    aggregate["episode_counts"]["error"] = True
    return with_document(files, "scores/aggregate.json", aggregate)


# fmt: off
PUBLISHED_LIES: list[tuple[str, Callable[[Files], Files], set[str]]] = [
    ("more withheld than committed", close_another, {"scores"}),
    ("a leaf of another", lambda f: with_entries(f, lambda r: r[1].update(leaf="ab" * 32)),
     {"certificate-fields"}),
    ("leaves swapped", lambda f: with_entries(f, swap_leaves), {"certificate-fields"}),
    ("an episode less", drop_last,
     {"scores", "aggregate", "results-hash", "audit-chain", "certificate-fields"}),
    ("an episode re-salted", lambda f: with_entries(f, lambda r: r[0].update(salt="ab" * 32)),
     {"certificate-fields"}),
    ("an episode twice", lambda f: with_entries(f, lambda r: r.insert(0, r[0])), {"scores"}),
    ("an open answer changed",
     lambda f: with_entries(f, lambda r: r[0]["line"].update(dataset_line="{}")),
     {"scores", "certificate-fields"}),
    ("a seed of no play", lambda f: with_entries(f, lambda r: r[0].update(seed="ab" * 32)),
     {"scores"}),
    ("no cap", without_the_cap, {"tier"}),
    ("a better tier", a_better_tier, {"tier"}),
    ("another number", lambda f: with_entries(f, lambda r: r[1].update(seq=9)), {"scores"}),
    ("a truth for a count", with_a_truth_for_a_count, {"aggregate"}),
    ("the coin", lambda f: f | {"coin.txt": COIN.line}, {"inventory"}),
    ("a form less", lambda f: {path: raw for path, raw in f.items() if path != "resolution.json"},
     {"inventory", "sums"}),
]
# fmt: on


@pytest.mark.parametrize(
    ("change", "caught"),
    [one[1:] for one in PUBLISHED_LIES],
    ids=[one[0] for one in PUBLISHED_LIES],
)
def test_a_published_bundle_that_lies_is_not_valid(
    shown: Files, tmp_path: Path, change: Callable[[Files], Files], caught: set[str]
) -> None:
    files = change(shown)
    report = checked_as(files, tmp_path / "p")
    found = {line.id for line in report.failed}
    assert report.verdict is Verdict.NOT_VALID
    assert caught <= found, [(line.id, line.expected, line.actual) for line in report.failed]
    plain = {
        name for name, problems in verify(tmp_path / "p", now=LATE).problems.items() if problems
    }
    # What the plain check does not compute, it names: open answers against their scores.
    assert plain & caught


def test_a_bundle_whose_template_withholds_nothing_must_be_whole(
    files: Files, tmp_path: Path
) -> None:
    entries = [{"seq": seq, "leaf": one.leaf.hex()} for seq, one in enumerate(held(files), 1)]
    kept = {
        path: raw
        for path, raw in files.items()
        if path != "coin.txt" and not path.startswith(("ground_truth/", "invocations/"))
    }
    hidden = kept | {"episodes.jsonl": b"".join(map(canonical_line, entries))}
    report = checked_as(hidden, tmp_path / "p")
    assert report.verdict is Verdict.NOT_VALID
    (inventory,) = [line for line in report.checks if line.id == "inventory"]
    assert inventory.expected == "all of the evidence: the template withholds nothing"
    bundle = store(files, tmp_path / "whole")
    ended = CliRunner().invoke(
        cli, ["disclose", str(bundle), "--published", "--output", str(tmp_path / "out")]
    )
    assert isinstance(ended.exception, SystemExit)


def test_a_withheld_score_that_was_raised_is_found_once_it_is_open(
    whole: Files, shown: Files, tmp_path: Path
) -> None:
    """The issuer publishes a better score than the one under the root: a reader cannot see that.

    Who opens the episode to him, or has it drawn, gives it away.
    """

    def lie(files: Files) -> Files:
        rows: list[Any] = lines(files, LINES)
        rows[2] |= {"scores": dict.fromkeys(rows[2]["scores"], 1.0), "composite": 1.0}
        return with_lines(files, LINES, rows)

    lying = store(lie(shown), tmp_path / "p")
    opened_file = tmp_path / "3.json"
    echelon(
        "disclose", store(whole, tmp_path / "whole"), "--episodes", "3", "--output", opened_file
    )
    code, found = echelon("audit", "check", lying, opened_file)
    assert code == ExitCode.CHECK_FAILED
    assert "results_hash" in found["invalid"]
    code, found = echelon("audit", "check", store(shown, tmp_path / "honest"), opened_file)
    assert (code, found["false"]) == (0, [])


def test_a_share_is_drawn_by_the_commitment(tmp_path: Path) -> None:
    changes = {**WITHHELD, "/product_theatre_config/withheld": {"share": 0.2}}
    stage = pilot_stage(tmp_path, episodes(6), changes=changes)
    files = load(stage.run(ScriptedAdapter()).bundle)
    commitment = certificate_of(files)["commitment_hash"]
    ranks = {
        hashlib.sha256(f"{commitment}:withheld:pilot-{seq}".encode()).digest(): seq
        for seq in range(1, 7)
    }
    smallest = sorted(ranks[rank] for rank in sorted(ranks)[:2])
    _, said = echelon(
        "disclose", store(files, tmp_path / "b"), "--published", "--output", tmp_path / "p"
    )
    assert said["withheld"] == smallest
    assert checked(tmp_path / "p").verdict is Verdict.CONSISTENT
    with pytest.raises(DisclosureError, match="expected a new folder"):
        echelon("disclose", tmp_path / "b", "--published", "--output", tmp_path / "p")
