"""The attacks of the table of adversaries that are no programs in a construct's place.

Each is carried out on a real run, as far as it comes, and returns how that ended, in the words of
`ends` in fixtures/adversaries/adversaries.toml. Where a bundle comes of it, both checks have to say
the same of it.
"""

import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, cast

import pytest

from tests.theatre.echelon_process import CARTOGRAPH, REPOSITORY
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    lines,
    load,
    rechained,
    records_of,
    resealed,
    store,
    with_records,
)
from tests.theatre.forked_echelon import forked
from tests.theatre.played_runs import OWN_RUNNER
from tests.theatre.rated_runs import details, rate, rated_stage, rating, trail_of
from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    EXPECTED,
    LATE,
    PILOT,
    REFUSED,
    WRONG,
    Answer,
    Finished,
    ScriptedAdapter,
    answer_as_asked,
    episodes,
    pilot_stage,
    with_changes,
)
from tests.theatre.test_bundle_check_runs import backtested
from tests.theatre.test_bundle_check_verdicts import invented_history
from tests.theatre.thinned import thinned
from tests.theatre.trail_edits import with_results
from theatre.api.template_files import read_template
from theatre.cli.adversaries.rehearsal import programs_folder, with_programs
from theatre.cli.certificate_report import print_certificate
from theatre.debate.episodes.pairs import BEGUN
from theatre.debate.episodes.runner import RUNNER as DEBATE
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_line,
    canonical_sha256,
    parse_object,
    sha256_hex,
)
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.replay import RunContext
from theatre.files.run_journal import EPISODES as JOURNAL
from theatre.oracles.isolation import means
from theatre.oracles.isolation.kernel_rules import landlock_abi

TRAIL = "audit_trail.jsonl"
CONSTRUCTS = REPOSITORY / "fixtures" / "constructs"
OTHER = "import sys\nfor line in sys.stdin:\n    pass\n"
ENTRY = """
[constructs.cartograph]
argv = ["{{python}}", "{{folder}}/{program}"]
folder = "{folder}"
files = ["*.py", "expertise.yaml"]
"""
BY_HEART = """
[constructs.cartograph]
argv = ["{python}", "-B", "{folder}/by_heart.py"]
folder = "by_heart"
files = ["*"]
"""


def unlisted_program(folder: Path) -> str:
    """Register a program that stands beside the honest construct's files."""
    (folder / "other.py").write_text(OTHER, encoding="utf-8")
    entry = ENTRY.format(program="../other.py", folder="cartograph")
    return run_cartograph(folder, entry)


def changed_program(folder: Path) -> str:
    """Change the honest construct's program under its pin."""
    shutil.copytree(CONSTRUCTS / "cartograph", folder / "cartograph")
    (folder / "cartograph" / "main.py").write_text(OTHER, encoding="utf-8")
    return run_cartograph(folder, ENTRY.format(program="main.py", folder="cartograph"))


def run_cartograph(folder: Path, entry: str) -> str:
    """Run Cartograph's theatre with a registry of the adversary's beside the template."""
    if not (folder / "cartograph").exists():
        shutil.copytree(CONSTRUCTS / "cartograph", folder / "cartograph")
    template = folder / "template.json"
    shutil.copyfile(CARTOGRAPH, template)
    (folder / "constructs.toml").write_text(entry, encoding="utf-8")
    answer = forked("theatre", "run", template, "--quiet", "--json", home=folder / "home")
    assert not list(folder.rglob("certificate.json"))
    return f"refused: {answer.document['error']['code']}"


def by_heart(pack: Callable[[bytes], bytes]) -> Callable[[Path], str]:
    """Return the attack of a program that answers from the ground truth among its own files."""

    def attack(folder: Path) -> str:
        template = thinned(read_template(CARTOGRAPH), folder, step=1)
        (folder / "by_heart").mkdir()
        shutil.copyfile(programs_folder() / "by_heart.py", folder / "by_heart" / "by_heart.py")
        truth = (folder / "ground_truth" / "product_cartograph_v1.jsonl").read_bytes()
        (folder / "by_heart" / "notes").write_bytes(pack(truth))
        (folder / "constructs.toml").write_text(BY_HEART, encoding="utf-8")
        written = folder / "template.json"
        written.write_bytes(canonical_bytes(with_programs(template, folder)))
        home = folder / "home"
        answer = forked("theatre", "run", written, "--quiet", "--json", home=home).document
        if "error" in answer:
            assert not list(home.rglob("certificate.json"))
            return f"refused: {answer['error']['code']}"
        (found,) = home.rglob("certificate.json")
        paid = parse_object(found.read_bytes())
        assert paid["composite_score"] == 1
        return f"paid: {paid['verification_tier']}"

    return attack


def left_answers(folder: Path) -> str:
    """Answer from a copy in shared memory, which the version does not bind."""
    if not landlock_abi():
        pytest.skip("the kernel has no Landlock")
    with NamedTemporaryFile(dir="/dev/shm") as left:
        Path(left.name).chmod(0o644)
        (folder / "by_heart").mkdir()
        program = (programs_folder() / "by_heart.py").read_text(encoding="utf-8")
        noted = 'Path(__file__).with_name("notes")'
        assert noted in program
        elsewhere = program.replace(noted, f"Path({left.name!r})")
        (folder / "by_heart" / "by_heart.py").write_text(elsewhere, encoding="utf-8")
        template = thinned(read_template(CARTOGRAPH), folder, step=1)
        left.write((folder / "ground_truth" / "product_cartograph_v1.jsonl").read_bytes())
        left.flush()
        (folder / "constructs.toml").write_text(BY_HEART, encoding="utf-8")
        written = folder / "template.json"
        written.write_bytes(canonical_bytes(with_programs(template, folder)))
        more = {means.REFUSED: means.Isolator.NAMESPACES}
        arguments = ("theatre", "run", written, "--quiet", "--json")
        assert forked(*arguments, home=folder / "home", more=more).code == 0
    (found,) = folder.rglob("certificate.json")
    paid: Any = parse_object(found.read_bytes())
    isolation = paid["isolation"]
    assert (paid["composite_score"], isolation["by"], isolation["files"]) == (1, "landlock", True)
    return f"paid: {paid['verification_tier']}"


def edited_while_running(before: bytes, after: bytes) -> Callable[[Path], str]:
    """Return the attack that changes the journal's second line before the run is settled.

    Lines stay where they are: that one was moved would be seen without any digest.
    """
    assert len(before) == len(after)

    def attack(folder: Path) -> str:
        stage = pilot_stage(folder, episodes(6, {2: WRONG}))

        def change(request: OracleInvocationRequest) -> JsonObject:
            if request.input_data == {"seq": 6}:
                journal = stage.folder / JOURNAL
                first, second, *others = journal.read_bytes().splitlines(keepends=True)
                assert before in second
                journal.write_bytes(b"".join([first, second.replace(before, after), *others]))
            return answer_as_asked(request)

        resolution = stage.run(ScriptedAdapter(change), batch_size=2).resolution
        left = [path.parent.parent.name for path in folder.rglob("certificate.json")]
        ending = f"{resolution['outcome']}: {resolution['outcome_reason']}"
        return f"{ending}; certificate in {left}" if left else ending

    return attack


def of_bundle(
    forge: Callable[[Files], Files], *, keeps_copy: bool = False
) -> Callable[[Path], str]:
    """Return the attack that forges the bundle of a run with bad answers and failures.

    All that follows from the change is made anew, the chain and its head on the certificate too.
    Where the reader `keeps_copy`, he has the certificate as it was issued.
    """

    def attack(folder: Path) -> str:
        bad = {1: WRONG, 2: ERROR, 3: REFUSED}
        stage = pilot_stage(folder, episodes(12, bad))
        honest = load(stage.run(ScriptedAdapter(answer_as_asked)).bundle)
        forged = store(resealed(forge(honest), Effort.CHAIN), folder / "forged")
        return judged(forged, kept=honest["certificate.json"] if keeps_copy else None)

    return attack


def judged(bundle: Path, *, kept: bytes | None = None) -> str:
    """Return what the check says of a bundle, and the lines that verify_bundle.py refuses."""
    report = check(bundle, certificate=kept)
    problems = verify(bundle, now=LATE, kept=kept).problems
    failed = ", ".join(sorted(line.id for line in report.failed))
    alone = ", ".join(sorted(name for name, found in problems.items() if found))
    if not failed:
        return f"{report.verdict}: {report.because}" + (alone and f"; stand-alone: {alone}")
    return f"not valid: {failed}; stand-alone: {alone or 'not seen'}"


def better_answers(files: Files) -> Files:
    """Put the right answer into a record."""
    records = cast("dict[int, Any]", records_of(files))
    response = records[1]["calls"][0]["attempts"][-1]["response"]
    response["output_data"] = {**EXPECTED}
    return with_records(files, records)


def better_scores(files: Files) -> Files:
    """Say of the whole run that it scored more than it did, in every place."""
    return with_results(changed(files, "scores/aggregate.json", all_right))


def all_right(aggregate: Any) -> None:  # noqa: ANN401 - a document
    """Put the best score into an aggregate."""
    aggregate["scores"]["colour"] = 1


def without_a_failure(files: Files) -> Files:
    """Take the failure out of the trail."""
    entries = lines(files, TRAIL)
    kept = [entry for entry in entries if entry["event_type"] != "episode_failed"]
    assert len(kept) == len(entries) - 1
    return rechained(files, kept)


def other_issuer(files: Files) -> Files:
    """Be another issuer, on the certificate and in the trail."""
    entries = lines(files, TRAIL)
    sealed = next(entry for entry in entries if entry["event_type"] == "sealed")
    sealed["detail"] = {**cast("JsonObject", sealed["detail"]), "issuer": "another"}
    forged = changed(files, "certificate.json", lambda whole: whole.update(issuer="another"))
    return rechained(forged, entries)


def back_dated(files: Files) -> Files:
    """Ask before the commitment."""
    records = cast("dict[int, Any]", records_of(files))
    records[1]["calls"][0]["request"]["metadata"]["invoked_at"] = "2020-01-01T00:00:00.000000Z"
    return with_records(files, records)


def invented(folder: Path) -> str:
    """Bring a history for PROVEN; the reader has the certificate, and it is the same one."""
    earlier = backtested(folder / "earlier")
    run = backtested(folder / "run", invented_history(earlier))
    assert run.certificate["verification_tier"] == "PROVEN"
    return judged(run.sealed, kept=(run.sealed / "certificate.json").read_bytes())


def duplicates(folder: Path) -> str:
    """Certify on one question, asked sixty times."""
    same: list[JsonObject] = [{**one, "input_data": {"seq": 1}} for one in episodes(60)]
    finished = pilot_stage(folder, same).run(ScriptedAdapter())
    certificate = finished.document("certificate.json")
    assert certificate["verification_tier"] == "UNVERIFIED"
    assert judged(finished.bundle).startswith("consistent")
    assessment: Any = finished.document("tier.json")["assessment"]
    caps: list[str] = assessment["caps"]
    return "; ".join(f"cap: {cap}" for cap in caps if "per-criterion" not in cap)


def unsent_numbers(folder: Path) -> str:
    """Number the copies of one debate where the number is sent to no one."""
    given = read_template(REPOSITORY / "fixtures" / "templates" / "product_debate_auditor_v1.json")
    config = cast("Mapping[str, str]", given["product_theatre_config"])
    data = REPOSITORY / "fixtures" / config["replay_data_path"]
    first: Any = parse_object(data.read_bytes().splitlines()[0])
    asked = first["input_data"]
    lines = b"".join(
        canonical_line({**first, "episode_id": f"e-{at}", "input_data": {**asked, "at": at}})
        for at in range(60)
    )
    copies = folder / config["replay_data_path"]
    copies.parent.mkdir()
    copies.write_bytes(lines)
    hashes = {f"/dataset_hashes/{config['replay_dataset_id']}": sha256_hex(lines)}
    template = folder / "template.json"
    template.write_bytes(canonical_bytes(with_changes(given, hashes)))
    answer = forked("theatre", "run", template, "--quiet", "--json", home=folder / "home")
    return f"refused: {answer.document['error']['code']}"


ZERO_WIDTH = "\u200b"


def with_unseen(text: str, number: int) -> str:
    """Return a text that looks the same, and says a number in spaces without width."""
    return "".join(f"{letter}{ZERO_WIDTH * (number >> at & 1)}" for at, letter in enumerate(text))


def numbered_copies(folder: Path) -> str:
    """Number the copies: they count as sixty questions, and the certificate says what they are."""
    asked: list[JsonObject] = [
        {**one, "input_data": {"text": with_unseen("question", number), "number": number}}
        for number, one in enumerate(episodes(60))
    ]
    finished = pilot_stage(folder, asked).run(ScriptedAdapter())
    certificate = finished.document("certificate.json")
    assert judged(finished.bundle).startswith("consistent")
    assert "near-duplicates" in cast("list[str]", certificate["findings"])
    return f"paid: {certificate['verification_tier']}, finding near-duplicates"


SAYS = """#!/bin/sh
version='"construct_version":"'"$ECHELON_CONSTRUCT_VERSION"'"'
answer='"status":"success","output_data":{{"colour":"{colour}"}}'
of='"construct_id":"colours"'
exec sed -u 's/.*\\("invocation_id": *"[^"]*"\\).*/{{\\1,'"$of,$version,$answer"'}}/'
"""
NAMED_ON_PATH = """
id: product_colours_v1
name: Colours
construct: {adapter: local, id: colours, endpoint: ["interpreter", "colours.txt"]}
data: ground_truth.jsonl
answer: colour
measure: exact_match
"""


def other_interpreter(folder: Path) -> str:
    """Certify a program that is often wrong; then another one, by the same name on PATH."""
    asked: Any = [{**one, "expected_output": {"colour": "red"}} for one in episodes(60)]
    (folder / "ground_truth.jsonl").write_bytes(b"".join(map(canonical_line, asked)))
    (folder / "colours.txt").write_text("what the honest interpreter reads", encoding="utf-8")
    (folder / "echelon.yaml").write_text(NAMED_ON_PATH, encoding="utf-8")
    reports = []
    for colour in ("blue", "red"):
        interpreter = folder / colour / "bin" / "interpreter"
        interpreter.parent.mkdir(parents=True)
        interpreter.write_text(SAYS.format(colour=colour), encoding="utf-8")
        interpreter.chmod(0o700)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(interpreter.parent), prepend=os.pathsep)
            run = "run", folder / "echelon.yaml", "--quiet", "--json"
            reports.append(forked(*run, home=folder / "home").document)
    paid = parse_object((Path(reports[1]["bundle_path"]) / "certificate.json").read_bytes())
    assert [one["scores"] for one in reports] == [{"right_colour": 0}, {"right_colour": 1}]
    assert [one["commitment_hash"] for one in reports] == [paid["commitment_hash"]] * 2
    new = set(reports[1]["findings"]) - set(reports[0]["findings"])
    return f"paid: {paid['verification_tier']}, finding {', '.join(new)}"


def borrowed_skill(folder: Path) -> str:
    """Certify a construct that answers nothing, with one that does all of it behind it."""
    under_test = {"/product_theatre_config/construct_under_test": EASEL}
    stage = pilot_stage(folder, episodes(60), changes={**CHAIN, **under_test})
    nothing = ScriptedAdapter(lambda _: {"output_data": {}}, version=EASEL_VERSION)
    finished = stage.run({EASEL: nothing, PILOT: ScriptedAdapter()})
    certificate: Any = finished.document("certificate.json")
    assert (certificate["construct_id"], certificate["composite_score"]) == (EASEL, 1)
    assert judged(finished.bundle).startswith("consistent")
    found = [one for one in certificate["findings"] if one.startswith("answered-by-another")]
    return f"paid: {certificate['verification_tier']}, finding {', '.join(found)}"


def good_form(folder: Path) -> str:
    """Have the form of an answer judged, and give one answer to every question."""
    texts: JsonObject = {"field": "colour", "schema": {"type": "string", "minLength": 3}}
    changes: JsonObject = {
        "/criteria": {
            "criteria_ids": ["colour"],
            "criteria_human": "Names a colour.",
            "weights": {"colour": 1},
        },
        "/scoring/criteria_scorers": {"colour": {"scorer": "json_schema", "params": texts}},
        "/scorer_pins": {"json_schema": "1"},
        "/version_pins/scorer_version": "json_schema@1",
    }
    stage = pilot_stage(folder, episodes(60), changes=changes)
    finished = stage.run(ScriptedAdapter(lambda _: {"output_data": {"colour": "blue"}}))
    certificate: Any = finished.document("certificate.json")
    assert judged(finished.bundle).startswith("consistent")
    assert certificate["composite_score"] == 1
    found = [one for one in certificate["findings"] if one.startswith("form-alone")]
    return f"paid: {certificate['verification_tier']}, finding {', '.join(found)}"


def refuses_the_hard(folder: Path) -> str:
    """Know half of the answers, and refuse the rest: what is refused is in no mean."""

    def answer(request: OracleInvocationRequest) -> JsonObject:
        seq = cast("int", request.input_data["seq"])
        return {"output_data": {**EXPECTED, "seq": seq}} if seq % 2 else REFUSED

    finished = pilot_stage(folder, episodes(120)).run(ScriptedAdapter(answer))
    certificate: Any = finished.document("certificate.json")
    assert (certificate["composite_score"], certificate["refusal_rate"]) == (1, 0.5)
    return f"paid: {findings_of(finished, 'left-out')}"


def one_friend(folder: Path) -> str:
    """Let one friend give one answer full marks, and let that be all that is scored."""
    alone = rating(items=1, share=1, identity_separation={"minimum_scorers": 1})
    stage = rated_stage(folder, episodes(60), ratings=[alone])
    stage.run(ScriptedAdapter(lambda _: WRONG))
    (opened,) = details(trail_of(stage), "hitl_opened")
    (item,) = cast("list[str]", opened["items"])
    rate(stage, "Nice Aunt", {item: 5})
    finished = stage.run(ScriptedAdapter())
    scores: Any = finished.document("certificate.json")["scores"]
    assert scores["colour"] == 1
    assert judged(finished.bundle).startswith("consistent")
    assessment: Any = finished.document("tier.json")["assessment"]
    return "; ".join(f"cap: {cap}" for cap in assessment["caps"])


def hundredth(folder: Path) -> str:
    """Give a friend a hundredth of the score, so that no trivial answer is put to its scorer."""
    friend = rating(items=1, share=0.01, identity_separation={"minimum_scorers": 1})
    asked: list[JsonObject] = [
        {**one, "expected_output": {**EXPECTED, "colour": "teal" if number % 6 else "blue"}}
        for number, one in enumerate(episodes(60))
    ]
    stage = rated_stage(folder, asked, ratings=[friend])
    always = ScriptedAdapter(saying("teal"))
    stage.run(always)
    (opened,) = details(trail_of(stage), "hitl_opened")
    rate(stage, "Nice Aunt", dict.fromkeys(cast("list[str]", opened["items"]), 5))
    return f"paid: {findings_of(stage.run(always), 'baseline')}"


def own_praise(folder: Path) -> str:
    """Rate one's own answers under a template that names no author; others leave before the end."""
    alone = rating(items=30, share=1, identity_separation={"minimum_scorers": 1})
    stage = rated_stage(folder, episodes(60), ratings=[alone], changes={"/metadata": {}})
    stage.run(ScriptedAdapter(lambda _: WRONG))
    (opened,) = details(trail_of(stage), "hitl_opened")
    items = cast("list[str]", opened["items"])
    rate(stage, "Ann", dict.fromkeys(items[:-1], 1))
    rate(stage, "The Author", dict.fromkeys(items, 5))
    finished, shown = stage.run(ScriptedAdapter()), StringIO()
    with redirect_stdout(shown):
        print_certificate(finished.bundle)
    assert "they are The Author\n" in shown.getvalue()
    assert "not all answers, so not counted: Ann\n" in shown.getvalue()
    return f"paid: {findings_of(finished, 'authors', 'ratings')}"


def chosen_clusters(folder: Path) -> str:
    """Put a right and a wrong answer into each cluster, having seen which is which."""
    asked: list[JsonObject] = [
        {**one, "cluster_key": f"pair {number // 2}"} for number, one in enumerate(episodes(60))
    ]

    def answer(request: OracleInvocationRequest) -> JsonObject:
        number = cast("int", request.input_data["seq"])
        return {"output_data": {**EXPECTED}} if number % 2 or number == 60 else WRONG

    return (
        f"paid: {findings_of(pilot_stage(folder, asked).run(ScriptedAdapter(answer)), 'interval')}"
    )


def matched_clusters(folder: Path) -> str:
    """Put together answers whose two criteria make up for each other: all clusters are alike."""
    asked: list[JsonObject] = [
        {**one, "cluster_key": f"pair {number // 2}"} for number, one in enumerate(episodes(60))
    ]
    right = ([(True, True), (False, False)], [(True, False)] * 2, [(False, True)] * 2)

    def answer(request: OracleInvocationRequest) -> JsonObject:
        pair, half = divmod(cast("int", request.input_data["seq"]) - 1, 2)
        wrong = cast("JsonObject", WRONG["output_data"])
        # All alike would have no interval: in the last pair one half has both.
        chosen = (True, True) if (pair, half) == (29, 1) else right[pair % 3][half]
        given = zip(EXPECTED, chosen, strict=True)
        return {
            "output_data": {
                name: (EXPECTED if is_right else wrong)[name] for name, is_right in given
            }
        }

    changes: JsonObject = {"/criteria/weights": {"colour": 0.5, "recall": 0.5}}
    finished = pilot_stage(folder, asked, changes=changes).run(ScriptedAdapter(answer))
    return f"paid: {findings_of(finished, 'interval', of='composite_score')}"


def no_single_field(folder: Path) -> str:
    """Have all of an answer looked at, so that no baseline has a place to stand in."""
    asked = [
        {**one, "expected_output": {**EXPECTED, "colour": "teal" if number % 6 else "blue"}}
        for number, one in enumerate(episodes(60))
    ]
    changes: JsonObject = {"/scoring/criteria_scorers/colour/params": {}}
    stage = pilot_stage(folder, asked, changes=changes)
    said: JsonObject = {"output_data": {**EXPECTED, "colour": "teal"}}
    return f"paid: {findings_of(stage.run(ScriptedAdapter(lambda _: said)), 'baseline')}"


def saying(colour: JsonValue) -> Answer:
    """Return a construct that gives one answer to everything."""
    return lambda _: {"output_data": {**EXPECTED, "colour": colour}}


def right_for_all(folder: Path) -> str:
    """Write expectations of which none is right for another, and one answer is for all."""
    names = [f"part {number}" for number in range(60)]
    near: JsonObject = {"field": "colour", "expected": "colour", "abs": 51}
    tricks: tuple[tuple[str, JsonObject, list[JsonValue], JsonValue], ...] = (
        ("numeric_tolerance", near, [[0, 101][n % 2] + n / 100 for n in range(60)], 50.8),
        (
            "label_accuracy",
            {"field": "colour", "expected": "colour"},
            [{name: "there"} for name in names],
            dict.fromkeys(names, "there"),
        ),
        (
            "set_f1",
            {"field": "colour", "expected": "colour"},
            [[one for one in names if one != name] for name in names],
            [*names],
        ),
    )
    ends = set()
    for scorer, params, right, said in tricks:
        asked: list[JsonObject] = [
            {**one, "expected_output": {**EXPECTED, "colour": colour}}
            for one, colour in zip(episodes(60), right, strict=True)
        ]
        changes: JsonObject = {
            "/scoring/criteria_scorers/colour": {"scorer": scorer, "params": params},
            "/scorer_pins": {"numeric_tolerance": "1", scorer: "1"},
        }
        stage = pilot_stage(folder / scorer, asked, changes=changes)
        finished = stage.run(ScriptedAdapter(saying(said)))
        scores: Any = finished.document("certificate.json")["scores"]
        assert scores["colour"] > 0.99
        ends.add(f"paid: {findings_of(finished, 'baseline')}")
    return "; ".join(ends)


def decoys(folder: Path) -> str:
    """Lead baselines astray, so that they miss the one answer that is right for nearly all."""
    record: JsonObject = {f"part {number}": 1 for number in range(60)}
    times = [f"2026-01-01T00:{59 - number:02}:00Z" for number in range(59)]
    asked: list[JsonObject] = [
        {**one, "expected_output": {"colour": {part: 1}, "recall": time}}
        for one, part, time in zip(
            episodes(60), record, [times[0], "1970-01-01T00:00:00Z", *times[1:]], strict=True
        )
    ]
    made: dict[str, JsonObject] = {
        "colour": {"scorer": "hash_chain", "params": {}},
        "recall": {"scorer": "freshness_decay", "params": {"half_life_seconds": 1e9}},
    }
    changes: dict[str, JsonValue] = {"/scorer_pins": {"hash_chain": "1", "freshness_decay": "1"}}
    for name, choice in made.items():
        params = {**cast("JsonObject", choice["params"]), "field": name, "expected": name}
        changes[f"/scoring/criteria_scorers/{name}"] = {**choice, "params": params}
    said: JsonObject = {"colour": {**record, "hash": canonical_sha256(record)}, "recall": times[-1]}
    stage = pilot_stage(folder, asked, changes=changes)
    finished = stage.run(ScriptedAdapter(lambda _: {"output_data": said}))
    scores: Any = finished.document("certificate.json")["scores"]
    assert scores["colour"] == 1
    assert scores["recall"] > 0.98
    assert findings_of(finished, "baseline", of="recall").endswith(":recall")
    return f"paid: {findings_of(finished, 'baseline')}"


def all_the_words(*, times: int = 1, others: int = 0) -> Callable[[Path], str]:
    """Quote all of the one record that every question shows; of several times not the last.

    `others`: so many questions of another kind stand among them.
    """

    def attack(folder: Path) -> str:
        words = [f"word{number:02}" for number in range(60)]
        record: JsonObject = {"id": "r", "content": " ".join(words)}
        record["hash"] = canonical_sha256(record)
        asked: list[JsonObject] = [
            {
                **one,
                "input_data": {**cast("JsonObject", one["input_data"]), "records": [record]},
                "expected_output": {**EXPECTED, "colour": {"record_id": "r", "quotes": [word]}},
            }
            for one, word in zip(episodes(60), words, strict=True)
        ]
        asked += [{**one, "expected_output": {"recall": 0.5}} for one in episodes(60 + others)[60:]]
        params: JsonObject = {"field": "colour", "expected": "colour", "records": "records"}
        changes: dict[str, JsonValue] = {
            "/scoring/criteria_scorers/colour": {"scorer": "hash_chain", "params": params},
            "/scorer_pins": {"numeric_tolerance": "1", "hash_chain": "1"},
        }
        if times > 1:
            changes |= {"/schema_version": "2.2.0", "/execution_policy/repeats": times}
        cited = {"record_id": "r", "hash": record["hash"], "quote": record["content"]}
        asked_before: Counter[str] = Counter()

        def answer(request: OracleInvocationRequest) -> JsonObject:
            asked_before[request.episode_id] += 1
            if cast("int", request.input_data["seq"]) > len(words):
                return {"output_data": {"recall": 0.5}}
            is_last = times > 1 and asked_before[request.episode_id] == times
            return saying({} if is_last else cited)(request)

        finished = pilot_stage(folder, asked, changes=changes).run(ScriptedAdapter(answer))
        scores: Any = finished.document("certificate.json")["scores"]
        assert scores["colour"] == (1 if times == 1 else 1 - 1 / times)
        return f"paid: {findings_of(finished, 'baseline', 'interchangeable')}"

    return attack


def handed_back(folder: Path) -> str:
    """Hand back what stands in the question: half of an answer, a hint, all that may be right."""
    asked: list[JsonObject] = []
    for one in episodes(60):
        number = len(asked) + 1
        key = sha256_hex(str(number).encode())
        readings: list[JsonValue] = [*range(number, 4 * number + number % 5, number)]
        names: list[JsonValue] = [f"{number}.{reading}" for reading in readings]
        given: JsonObject = {
            "id": key[:5],
            "readings": readings,
            "shown": [{"no": no} for no in names],
            # In one of two members, and among copies that no other question has.
            f"odd{number % 2}": key[5:9],
            **{sha256_hex(f"{number}.{copy}".encode())[:9]: key[5:9] for copy in range(12)},
        }
        right: JsonObject = {
            "colour": {"id": key[:5], "label": key[-1]},
            "hint": key[:5],
            "moves": key[5:9],
            "last": cast("int", readings[-1]) + number % 3 - 1,
            "all": names,
        }
        asked.append({**one, "input_data": given, "expected_output": right})

    def answer(request: OracleInvocationRequest) -> JsonObject:
        given: Any = request.input_data
        said: JsonObject = {
            "colour": {"id": given["id"]},
            "hint": given["id"],
            "moves": given.get("odd0", given.get("odd1")),
            "last": given["readings"][-1],
            "all": [one["no"] for one in given["shown"]],
        }
        return {"output_data": said}

    scorers = {
        "colour": "field_match",
        "hint": "exact_match",
        "moves": "exact_match",
        "last": "numeric_tolerance",
        "all": "set_f1",
    }
    choices: JsonObject = {
        name: {
            "scorer": scorer,
            "params": {"field": name, "expected": name}
            | ({"abs": 1} if scorer == "numeric_tolerance" else {}),
        }
        for name, scorer in scorers.items()
    }
    changes: JsonObject = {
        "/criteria": {"criteria_ids": [*scorers], "criteria_human": "Answers."},
        "/scoring/criteria_scorers": choices,
        "/scorer_pins": dict.fromkeys(scorers.values(), "1"),
    }
    finished = pilot_stage(folder, asked, changes=changes).run(ScriptedAdapter(answer))
    certificate: Any = finished.document("certificate.json")
    assert certificate["scores"] == {name: 0.5 if name == "colour" else 1 for name in scorers}
    assert {f"interchangeable-answers:{name}" for name in scorers} <= {*certificate["findings"]}
    return f"paid: {findings_of(finished, 'baseline', 'interchangeable')}"


def handed_on(folder: Path) -> str:
    """Hand on, as the last of a chain and the one certified, what the one before has found out."""
    asked: list[JsonObject] = [
        {**one, "expected_output": {**EXPECTED, "colour": f"hue {number}"}}
        for number, one in enumerate(episodes(60), start=1)
    ]
    finished = pilot_stage(folder, asked, changes=CHAIN).run(
        {
            EASEL: ScriptedAdapter(
                lambda one: saying(f"hue {one.input_data['seq']}")(one), version=EASEL_VERSION
            ),
            PILOT: ScriptedAdapter(
                lambda one: {"output_data": cast("Any", one.input_data["upstream"])[EASEL]}
            ),
        }
    )
    certificate: Any = finished.document("certificate.json")
    assert (certificate["construct_id"], certificate["composite_score"]) == (PILOT, 1)
    return f"paid: {findings_of(finished, 'answered', 'interchangeable')}"


def own_runner(folder: Path) -> str:
    """Install a runner that makes the right answer of one word, which no baseline says."""
    asked: list[JsonObject] = [
        {
            **one,
            "input_data": {"seq": number, "right": f"hue {number}"},
            "expected_output": {**EXPECTED, "colour": f"hue {number}"},
        }
        for number, one in enumerate(episodes(60))
    ]
    stage = pilot_stage(
        folder, asked, changes={"/product_theatre_config/episode_runner": OWN_RUNNER.name}
    )
    word = ScriptedAdapter(lambda _: {"output_data": {"word": "please"}})
    with_own = partial(replace, runners={OWN_RUNNER.name: OWN_RUNNER})
    finished = stage.run(word, around=with_own)
    certificate: Any = finished.document("certificate.json")
    assert certificate["composite_score"] == 1
    assert not [one for one in certificate["findings"] if one.startswith("baseline")]
    return f"paid: {findings_of(finished, 'own-scorer')}"


def one_note(folder: Path) -> str:
    """Find every fault in every turn, and have only counted which faults are found."""
    codes = ("FALSIFIER_MISSING", "RUNG_COLLAPSE")
    said: list[JsonValue] = [{"turn": turn, "code": code} for turn in range(3) for code in codes]
    asked: list[JsonObject] = [
        {
            **one,
            "input_data": {"play": "audit", "debate": {"turns": [f"turn {number}"]}},
            "expected_output": {
                "gold": {
                    "planted": {"turn": number % 3, "code": codes[number % 2], "implied": []},
                    "labelled": [],
                }
            },
        }
        for number, one in enumerate(episodes(60))
    ]
    recall: JsonObject = {"measure": "recall", "expected": "gold"}
    changes: JsonObject = {
        "/criteria": {
            "criteria_ids": ["recall"],
            "criteria_human": "Finds the fault.",
            "weights": {"recall": 1},
        },
        "/product_theatre_config/episode_runner": DEBATE.name,
        "/scoring/criteria_scorers": {"recall": {"scorer": "planted_faults", "params": recall}},
        "/scorer_pins": {"planted_faults": "1"},
        "/version_pins/scorer_version": "planted_faults@1",
    }
    stage = pilot_stage(folder, asked, changes=changes)
    alarm = ScriptedAdapter(lambda _: {"output_data": {"findings": said}})
    finished = stage.run(alarm, around=partial(replace, runners={DEBATE.name: DEBATE}))
    certificate: Any = finished.document("certificate.json")
    assert certificate["composite_score"] == 1
    return f"paid: {findings_of(finished, 'baseline', of='recall')}"


def never_turns(folder: Path) -> str:
    """Keep what was said, and have nine tenths for it: for the probe that begins true."""
    reason = "### CLAIM\nBuy.\n\n### REASON 1\nIt may rise."
    said: JsonObject = {"content": reason, "final_answer": "BUY"}
    asked: list[JsonObject] = []
    for number, one in enumerate(episodes(60)):
        probe: JsonObject = {"case": {"debate_id": f"d{number}"}, "opening": said}
        truths: JsonObject = {"begun_true": "BUY", "begun_false": ("SELL", "HOLD")[number % 2]}
        given: JsonObject = {"play": "probes", **dict.fromkeys(BEGUN, probe)}
        asked.append({**one, "input_data": given, "expected_output": {"probes": truths}})
    measures = {"kept": "begun_true", "both": "turned_and_kept"}
    scorers: JsonObject = {
        name: {"scorer": "debate_transitions", "params": {"measure": one, "expected": "probes"}}
        for name, one in measures.items()
    }
    changes: JsonObject = {
        "/criteria": {
            "criteria_ids": [*measures],
            "criteria_human": "Keeps what is true.",
            "weights": {"kept": 0.9, "both": 0.1},
        },
        "/product_theatre_config/episode_runner": DEBATE.name,
        "/scoring/criteria_scorers": scorers,
        "/scorer_pins": {"debate_transitions": "2"},
    }
    stage = pilot_stage(folder, asked, changes=changes)
    adapter = ScriptedAdapter(lambda _: {"output_data": said})
    finished = stage.run(adapter, around=partial(replace, runners={DEBATE.name: DEBATE}))
    certificate: Any = finished.document("certificate.json")
    assert certificate["composite_score"] == 0.9
    return f"paid: {findings_of(finished, 'one-sided', 'baseline', of='kept')}"


def guess_again(folder: Path) -> str:
    """Commit a shape that only right answers have, and guess anew when the engine asks again."""
    colours = ("red", "blue", "teal")
    right = {number: colours[number * number % 7 % 3] for number in range(1, 61)}
    asked: list[JsonObject] = [
        {**one, "expected_output": {**EXPECTED, "colour": right[number]}}
        for number, one in enumerate(episodes(60), start=1)
    ]
    fits: list[JsonValue] = [
        {
            "properties": {
                "colour": {"const": colour},
                "seq": {"enum": [number for number in right if right[number] == colour]},
            }
        }
        for colour in colours
    ]
    asked_before: Counter[str] = Counter()

    def answer(request: OracleInvocationRequest) -> JsonObject:
        colour = colours[asked_before[request.invocation_id] % 3]
        asked_before[request.invocation_id] += 1
        return {"output_data": {**EXPECTED, "colour": colour, "seq": request.input_data["seq"]}}

    changes: JsonObject = {
        "/resolution_programme/0/output_spec": {"oneOf": fits},
        "/execution_policy/on_threshold": "continue",
        "/execution_policy/retry_policy": {"max_retries": 2, "backoff_seconds": 0},
    }
    finished = pilot_stage(folder, asked, changes=changes).run(ScriptedAdapter(answer))
    assert judged(finished.bundle).startswith("consistent")
    assert max(asked_before.values()) == 1
    assessment: Any = finished.document("tier.json")["assessment"]
    return "; ".join(f"cap: {cap}" for cap in assessment["caps"] if "failure" in cap)


def findings_of(finished: Finished, *names: str, of: str = "colour") -> str:
    """Return the tier of a run, and those of its findings on one score that begin like this."""
    said = judged(finished.bundle)
    assert said.startswith("consistent")
    assert "stand-alone" not in said
    certificate: Any = finished.document("certificate.json")
    found = [
        one for one in certificate["findings"] if one.startswith(names) and one.endswith(f":{of}")
    ]
    return f"{certificate['verification_tier']}, finding {', '.join(found)}"


class StoppedError(Exception):
    """The owner has seen enough of a run."""


def set_back(folder: Path) -> str:
    """Stop a run that goes badly, set its folder back to before the first call, and run it again.

    Coin, commitment and nonce are the same, so the log sees one run: who owns the machine does it.
    """
    stage, made, before = pilot_stage(folder / "run", episodes(60)), 0, folder / "before"
    place = stage.folder
    shutil.copytree(place, before)

    def badly(_: OracleInvocationRequest) -> JsonObject:
        nonlocal made
        made += 1
        if made > 30:
            raise StoppedError
        return WRONG

    def logged(around: RunContext) -> RunContext:
        return replace(around, run_nonce=bytes(range(32)))

    with pytest.raises(StoppedError):
        stage.run(ScriptedAdapter(badly), batch_size=1, around=logged)
    shutil.rmtree(place)
    before.rename(place)
    finished = stage.run(ScriptedAdapter(), around=logged)
    assert judged(finished.bundle).startswith("consistent")
    return f"paid: {finished.document('certificate.json')['verification_tier']}"


ATTACKS: Mapping[str, Callable[[Path], str]] = {
    "unlisted-program": unlisted_program,
    "changed-program": changed_program,
    "listed-answers": by_heart(lambda truth: truth),
    "packed-answers": by_heart(zlib.compress),
    "left-answers": left_answers,
    "edited-journal": edited_while_running(b'"colour":"blue"', b'"colour":"teal"'),
    "edited-cache": edited_while_running(b'"colour":0', b'"colour":9'),
    "better-answers": of_bundle(better_answers),
    "better-scores": of_bundle(better_scores),
    "rechained-trail": of_bundle(without_a_failure),
    "other-issuer": of_bundle(other_issuer, keeps_copy=True),
    "back-dated": of_bundle(back_dated),
    "invented-history": invented,
    "duplicates": duplicates,
    "numbered-copies": numbered_copies,
    "unsent-numbers": unsent_numbers,
    "other-interpreter": other_interpreter,
    "borrowed-skill": borrowed_skill,
    "good-form": good_form,
    "refuses-the-hard": refuses_the_hard,
    "one-friend": one_friend,
    "hundredth": hundredth,
    "own-praise": own_praise,
    "chosen-clusters": chosen_clusters,
    "matched-clusters": matched_clusters,
    "no-single-field": no_single_field,
    "guess-again": guess_again,
    "own-runner": own_runner,
    "one-note": one_note,
    "never-turns": never_turns,
    "right-for-all": right_for_all,
    "decoys": decoys,
    "all-the-words": all_the_words(),
    "silent-once": all_the_words(times=5),
    "two-kinds": all_the_words(others=60),
    "handed-back": handed_back,
    "handed-on": handed_on,
    "set-back": set_back,
}
"""Attack by the name of its row."""
