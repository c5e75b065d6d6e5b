"""`echelon import`: logs of other harnesses, scored to the numbers that they report."""

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    lines,
    load,
    resealed,
    store,
    with_document,
    with_lines,
)
from tests.theatre.harness.conftest import LOGS
from tests.theatre.runs import LATE
from theatre.cli.import_command import import_
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(import_, [*map(str, arguments), "--json"])


def imported_of(*arguments: str | Path) -> dict[str, Any]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return cast("dict[str, Any]", json.loads(result.stdout))


def test_a_log_of_inspect_ai_scores_to_the_numbers_that_it_reports(tmp_path: Path) -> None:
    report = imported_of("inspect", LOGS / "sums-12.json", "--out", tmp_path / "new")
    assert (report["harness"], report["samples"]) == ("inspect_ai@0.3.285", 12)
    match, includes = report["measures"]
    assert match == {
        "measure": "match",
        "scorer": "text_match",
        "reported": pytest.approx(7 / 12),
        "in_samples": 0.583333333,
        "recomputed": 0.583333333,
        "differing": 0,
        "examples": [],
    }
    assert (includes["scorer"], includes["recomputed"]) == ("contains_terms", 0.75)
    assert (includes["reported"], includes["differing"]) == (0.75, 0)


@pytest.mark.parametrize(
    ("kind", "name", "place"),
    [
        ("promptfoo", "promptfoo.json", ("results", "results", 4)),
        ("promptfoo", "promptfoo.json", ("results", "results", 4, "gradingResult")),
        ("promptfoo", "promptfoo.json", ("results", "prompts", 0, "metrics")),
        ("inspect", "sums-12.json", ("samples", 8, "scores", "includes")),
        ("inspect", "sums-12.json", ("eval", "config")),
    ],
)
def test_a_log_of_another_form_is_named_and_leaves_nothing(
    kind: str, name: str, place: tuple[str | int, ...], tmp_path: Path
) -> None:
    log = whole = json.loads((LOGS / name).read_bytes())
    *above, last = place
    for one in above:
        whole = whole[one]
    whole[last] = "another"
    (tmp_path / "log.json").write_text(json.dumps(log))
    ended = run(kind, tmp_path / "log.json", "--out", tmp_path / "new")
    assert f"log.json as {kind} writes it, got a document of another form" in str(ended.exception)
    assert [one.name for one in tmp_path.iterdir()] == ["log.json"]


def test_what_no_scorer_measures_is_null(tmp_path: Path) -> None:
    log = json.loads((LOGS / "sums-12.json").read_bytes())
    log["samples"] = [{**log["samples"][0], "target": ""}]
    (tmp_path / "log.json").write_text(json.dumps(log))
    report = imported_of("inspect", tmp_path / "log.json", "--out", tmp_path / "new")
    # In JSON there is no NaN.
    assert report["measures"][0]["recomputed"] is None


def test_results_of_promptfoo_score_to_the_numbers_that_they_report(tmp_path: Path) -> None:
    report = imported_of("promptfoo", LOGS / "promptfoo.json", "--out", tmp_path / "new")
    assert (report["harness"], report["samples"]) == ("promptfoo@0.123.1", 20)
    found = {one["measure"]: one for one in report["measures"]}
    assert {name: one["recomputed"] for name, one in found.items()} == {
        "equals": 0.65,
        "contains": 0.75,
        "passed": None,
    }
    assert {one["differing"] for one in found.values()} == {0}
    assert report["unanswered"] == 0
    assert (found["passed"]["reported"], found["passed"]["in_samples"]) == (0.65, 0.65)


def test_assertions_of_promptfoo_are_read_as_it_graded_them(tmp_path: Path) -> None:
    # As promptfoo 0.123.1 writes them: variables in values, a set of assertions, one test less.
    def said(kind: str, value: object, score: float, *rendered: str) -> JsonObject:
        metadata = {"metadata": {"renderedAssertionValue": rendered[0]}} if rendered else {}
        return {"score": score, "assertion": {"type": kind, "value": value}, **metadata}  # type: ignore[dict-item]

    log = json.loads((LOGS / "promptfoo.json").read_bytes())
    first, second, third, *_ = log["results"]["results"]
    log["results"]["results"] = [first, second, third]
    inner = [said("icontains", "PARIS", 1), said("equals", 5, 1)]
    first["response"]["output"] = second["response"]["output"] = "5"
    first["gradingResult"]["componentResults"] = [
        said("equals", "{{sum}}", 1, "5"),
        {"score": 0.5, "assertion": None, "componentResults": inner},
        said("icontains", "PARIS", 0),
        said("equals", 5, 1),
        said("javascript", "output > 3", 0.5),
    ]
    second["gradingResult"]["componentResults"] = [said("equals", "{{sum}}", 0, "6")]
    third["response"], third["gradingResult"] = {}, None
    third["testCase"]["assert"] = [{"type": "assert-set", "assert": [{"type": "equals"}]}]
    (tmp_path / "log.json").write_text(json.dumps(log))
    report = imported_of("promptfoo", tmp_path / "log.json", "--out", tmp_path / "new")
    assert report["unanswered"] == 1
    assert [
        (one["measure"], one["in_samples"], one["recomputed"], one["differing"])
        for one in report["measures"][:-1]
    ] == [
        ("equals", 0.5, 0.5, 0),
        ("icontains", 0.0, 0.0, 0),
        ("equals_2", 1.0, 1.0, 0),
        ("javascript", 0.5, None, 0),
    ]
    answers = (tmp_path / "new" / "answers.jsonl").read_bytes().splitlines()
    # Null is not applicable; a score that is not there would count 0.
    assert json.loads(answers[1])["output_data"]["scores"]["javascript"] is None


def test_scores_of_inspect_ai_that_come_several_at_once_are_read(tmp_path: Path) -> None:
    log = json.loads((LOGS / "sums-12.json").read_bytes())
    entry, _ = log["results"]["scores"]
    mean = {"accuracy": {"name": "accuracy", "value": 0.25}}
    log["results"]["scores"] = [
        {**entry, "name": "Is it right?"},
        # What another reducer over epochs makes of the same.
        {**entry, "name": "Is it right?", "metrics": mean},
        {**entry, "name": "2nd", "metrics": {}},
    ]
    for one in log["samples"]:
        one["scores"] = {"grader": {"value": {"Is it right?": "C", "2nd": 0.5}}}
    (tmp_path / "log.json").write_text(json.dumps(log))
    report = imported_of("inspect", tmp_path / "log.json", "--out", tmp_path / "new")
    assert [(one["measure"], one["in_samples"]) for one in report["measures"]] == [
        ("is_it_right", 1.0),
        ("c_2nd", 0.5),
    ]
    assert report["measures"][0]["reported"] == pytest.approx(7 / 12)


def test_an_eval_file_is_read_entry_by_entry(tmp_path: Path) -> None:
    """The same log as versions before 0.3.2 packed it; Zstandard needs a package."""
    whole = json.loads((LOGS / "sums-12.json").read_bytes())
    samples = whole.pop("samples")
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(whole))
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_1.json", json.dumps(one))
    report = imported_of("inspect", path, "--out", tmp_path / "new")
    assert [one["recomputed"] for one in report["measures"]] == [0.583333333, 0.75]


def test_a_log_in_zstandard_is_read(tmp_path: Path) -> None:
    report = imported_of("inspect", LOGS / "sums.eval", "--out", tmp_path / "new")
    assert [one["recomputed"] for one in report["measures"]] == [0.65, 0.75]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself unpacks it")
def test_without_the_extra_a_log_in_zstandard_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    result = run("inspect", LOGS / "sums.eval", "--out", tmp_path / "new")
    assert "pip install 'echelon-theatre[harness]', or convert it with inspect log convert" in str(
        result.exception
    )


def test_rows_of_a_table_are_questions_answers_and_scores(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(
        "text;Label v1.2;said;grade;ok\nred wine;red;red;.5;True\nsnow;white;grey;1;False\n"
        "ice;;blue;;\n"
    )
    label = "Label v1.2"
    options = ("--expected", label, "--answer", f"{label}=said", "--score", "grade")
    report = imported_of("csv", table, "--out", tmp_path / "new", *options, "--score", "ok")
    assert [(one["measure"], one["in_samples"]) for one in report["measures"]] == [
        ("label_v1_2", None),
        ("grade", 0.75),
        ("ok", 0.5),
    ]
    assert report["measures"][0]["recomputed"] == pytest.approx(1 / 3)
    template = json.loads((tmp_path / "new" / "template.json").read_bytes())
    assert template["product_theatre_config"]["construct_under_test"] == "new"
    # No one reported a score of the label.
    assert template["criteria"]["criteria_ids"] == ["label_v1_2", "grade_reported", "ok_reported"]
    first = json.loads((tmp_path / "new" / "ground_truth.jsonl").read_bytes().splitlines()[0])
    assert first == {
        "episode_id": "row-2",
        "input_data": {"text": "red wine"},
        "expected_output": {"label_v1_2": "red"},
    }


def test_a_table_of_graded_answers_needs_the_answers_and_no_expectation(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("text,said,grade\nred wine,red,.5\nsnow,grey,1\n")
    # Its scores would be of episodes that all failed: a run of it is void.
    refused = run("csv", table, "--out", tmp_path / "new", "--score", "grade")
    assert "without an answer an episode has failed" in refused.output
    graded = ("--score", "grade", "--answer", "said=said")
    report = imported_of("csv", table, "--out", tmp_path / "new", *graded)
    assert (report["unanswered"], report["measures"][0]["in_samples"]) == (0, 0.75)
    first = (tmp_path / "new" / "answers.jsonl").read_bytes().splitlines()[0]
    assert json.loads(first)["output_data"] == {"said": "red", "scores": {"grade": 0.5}}


def test_what_a_solver_answered_itself_is_the_answer(tmp_path: Path) -> None:
    log = json.loads((LOGS / "sums-12.json").read_bytes())
    for sample in log["samples"]:
        said = sample["output"]["choices"][0]["message"]["content"]
        sample["output"] |= {"choices": [], "completion": said}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    report = imported_of("inspect", path, "--out", tmp_path / "new")
    assert [one["differing"] for one in report["measures"]] == [0] * len(report["measures"])
    assert report["measures"][0]["recomputed"] > 0


def test_a_score_on_another_scale_is_never_left_out_of_a_mean(tmp_path: Path) -> None:
    log = json.loads((LOGS / "sums-12.json").read_bytes())
    log["samples"][3]["scores"]["match"]["value"] = 7
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    refused = run("inspect", path, "--out", tmp_path / "new")
    assert "expected a score of 0 to 1, true, false or nothing as match of sample" in str(
        refused.exception
    )
    imported_of("inspect", path, "--out", tmp_path / "new", "--ground-truth")


def test_ground_truth_alone_has_no_answers(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "a", "text": "x", "label": 1}\n{"id": "b", "text": "y", "label": 2}\n')
    options = ("--ground-truth", "--id", "id", "--expected", "label")
    report = imported_of("jsonl", rows, "--out", tmp_path / "new", *options)
    assert report["files"] == ["ground_truth.jsonl"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["ground_truth.jsonl"]


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("inspect", "{}", "expected a log with the status success"),
        ("inspect", "no JSON", "expected JSON in"),
        ("promptfoo", '{"results": {"version": 4, "prompts": []}}', "results of version 3"),
        ("promptfoo", "[]", "expected the results of promptfoo"),
        ("jsonl", '{"id": 1}\n[]\n', "expected a JSON object in line 2"),
        ("csv", "id,label\n1\n", "expected 2 values in each row"),
        ("csv", "other\n1\n", "expected the columns id in line 2"),
        ("csv", "id\n1\n1\n", "expected each sample once, got '1' again"),
        ("csv", "id\n", "expected a log with samples, got none"),
        ("csv", "id,a,a\n1,2,3\n", "expected a different name for each column"),
        ("jsonl --score s", '{"id": 1, "s": null}\n\n{"id": 2, "s": "1e400"}\n', "as s in line 3"),
        ("jsonl --score s", '{"id": 1, "s": 7}\n', "expected a score of 0 to 1, true, false or"),
        ("jsonl --score s --score S", '{"id": 1, "s": 1, "S": 1}\n', "with different names"),
    ],
)
def test_what_is_no_log_says_what_was_expected(
    tmp_path: Path, kind: str, content: str, expected: str
) -> None:
    path = tmp_path / "log"
    path.write_text(content)
    name, *more = kind.split()
    options = ("--id", "id", "--ground-truth") if name in {"jsonl", "csv"} else ()
    result = run(name, path, "--out", tmp_path / "new", *options, *more)
    assert expected in str(result.exception)


# The run of an import, and who would like it to be more.


def test_the_run_of_an_import_says_so_and_is_unverified(imported: tuple[Path, Path]) -> None:
    bundle = load(imported[1])
    certificate: Any = document(bundle, "certificate.json")
    assert certificate["verification_tier"] == "UNVERIFIED"
    assert {"construct-not-isolated", "evidence:imported"} <= set(certificate["caps"])
    assert {"harness:inspect_ai@0.3.285", "version-declared"} <= set(certificate["findings"])
    assert certificate["version_source"] == "declared"
    assert certificate["scores"] == {
        "match": 0.583333333,
        "match_reported": 0.583333333,
        "includes": 0.75,
        "includes_reported": 0.75,
    }
    assert (
        bundle["ground_truth/recorded_answers.jsonl"]
        == (imported[0] / "answers.jsonl").read_bytes()
    )
    assert failed_ids(check(imported[1])) == set()


MARKS = frozenset({"evidence:imported", "construct-not-isolated"})


def without_caps(files: Files, marks: frozenset[str] = MARKS) -> Files:
    """Return the files with the marks gone from tier and certificate."""

    def drop(tier: dict[str, Any]) -> None:
        extra = tier["facts"]["extra_caps"]
        tier["facts"]["extra_caps"] = [one for one in extra if one not in marks]
        tier["assessment"]["caps"] = [one for one in tier["assessment"]["caps"] if one not in marks]
        unmet = tier["assessment"]["unmet"]
        tier["assessment"]["unmet"] = [one for one in unmet if one["code"] not in marks]

    def drop_of(certificate: dict[str, Any]) -> None:
        certificate["caps"] = [one for one in certificate["caps"] if one not in marks]

    return changed(changed(files, "tier.json", drop), "certificate.json", drop_of)


def isolated(files: Files) -> Files:
    """Return the files with a trail that says that answers were out of reach, and its cap gone."""
    closed: JsonObject = {"files": True, "processes": True, "network": False, "by": "namespaces"}
    entries: Any = lines(files, "audit_trail.jsonl")
    for entry in entries:
        if entry["event_type"] == "activated":
            entry["detail"]["isolation"] = dict.fromkeys(entry["detail"]["isolation"], closed)
    forged = with_lines(files, "audit_trail.jsonl", entries)
    forged = without_caps(forged, frozenset({"construct-not-isolated"}))
    return changed(forged, "certificate.json", lambda one: one.update(isolation=closed))


def called_here(files: Files) -> Files:
    """Return the files with a template that says that a local construct was called."""
    template: Any = document(files, "template.json")
    template["product_theatre_config"] |= {"adapter_type": "local"}
    del template["product_theatre_config"]["harness"]
    return with_document(files, "template.json", template)


def computed(files: Files) -> Files:
    """Return the files whose certificate says that the engine hashed what answered."""

    def claim(certificate: dict[str, Any]) -> None:
        certificate["findings"].remove("version-declared")
        certificate["version_source"] = "computed"

    return changed(files, "certificate.json", claim)


@pytest.mark.parametrize(
    ("forge", "refusing"),
    [
        (without_caps, {"tier"}),
        (isolated, {"certificate-fields"}),
        (called_here, {"commitment"}),
        (computed, {"certificate-fields"}),
        (lambda files: called_here(isolated(without_caps(files))), {"commitment"}),
    ],
    ids=["marks dropped", "isolation invented", "called here", "version computed", "all of it"],
)
def test_no_forger_makes_an_import_a_run(
    imported: tuple[Path, Path], tmp_path: Path, forge: Callable[[Files], Files], refusing: set[str]
) -> None:
    forged = store(resealed(forge(load(imported[1])), Effort.CHAIN), tmp_path / "bundle")
    report = check(forged)
    assert refusing <= failed_ids(report), report
    assert any(verify(forged, now=LATE).problems.values())


WRONG = "invocations/episode_000004.json"
"""The record of a wrong answer in the log."""


def improved(attempt: dict[str, Any]) -> None:
    """Make of the wrong answer the expected one."""
    attempt["response"]["output_data"]["completion"] = "156"


def gone(attempt: dict[str, Any]) -> None:
    """Say that the log has no answer."""
    attempt["reason"] = "no-recorded-answer"
    attempt["response"] |= {"status": "error", "output_data": None, "error_detail": "none"}


@pytest.mark.parametrize("forge", [improved, gone])
def test_an_answer_that_the_committed_log_has_not_is_refused(
    imported: tuple[Path, Path], tmp_path: Path, forge: Callable[[dict[str, Any]], None]
) -> None:
    def forge_record(record: dict[str, Any]) -> None:
        forge(record["calls"][0]["attempts"][0])

    files = changed(load(imported[1]), WRONG, forge_record)
    forged = store(resealed(files, Effort.CHAIN), tmp_path / "bundle")
    assert "invocations" in failed_ids(check(forged))
    assert "another answer than the committed log has" in str(verify(forged, now=LATE).problems)
