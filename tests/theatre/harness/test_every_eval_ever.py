"""`echelon theatre export --format every-eval-ever`: valid by the form's own schemas."""

import hashlib
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator

from tests.theatre.repeated_runs import Nth, repeated_run
from tests.theatre.runs import ERROR, EXPECTED, WRONG
from theatre.harness.every_eval_ever import EveryEvalEverExport

SCHEMAS = Path(__file__).parent / "every_eval_ever"
AGGREGATE, INSTANCE = (
    Draft7Validator(json.loads((SCHEMAS / name).read_bytes()))
    for name in ("eval.schema.json", "instance_level_eval.schema.json")
)


def test_aggregate_and_instances_are_valid_and_say_what_the_certificate_says(
    imported: tuple[Path, Path], tmp_path: Path
) -> None:
    report: Any = EveryEvalEverExport(imported[1]).write(tmp_path)
    aggregate = json.loads(Path(report["aggregate"]).read_bytes())
    raw = Path(report["instances"]).read_bytes()
    instances = [json.loads(line) for line in raw.splitlines()]
    assert [error.message for error in AGGREGATE.iter_errors(aggregate)] == []
    assert [e.message for one in instances for e in INSTANCE.iter_errors(one)] == []

    certificate = json.loads((imported[1] / "certificate.json").read_bytes())
    results = {one["evaluation_name"]: one for one in aggregate["evaluation_results"]}
    scores = {name: one["score_details"]["score"] for name, one in results.items()}
    assert scores == certificate["scores"]
    assert results["match"]["score_details"]["uncertainty"] == {
        "num_samples": 12,
        "confidence_interval": {
            "lower": certificate["score_intervals"]["match"]["low"],
            "upper": certificate["score_intervals"]["match"]["high"],
            "confidence_level": 0.95,
            "method": "wilson",
        },
    }
    assert aggregate["eval_library"]["name"] == "inspect_ai"
    details = aggregate["source_metadata"]["additional_details"]
    assert (details["verification_tier"], "evidence:imported" in details["caps"]) == (
        "UNVERIFIED",
        True,
    )
    files = aggregate["detailed_evaluation_results"]
    assert tmp_path / files["file_path"] == Path(report["instances"])
    assert (files["checksum"], files["total_rows"]) == (hashlib.sha256(raw).hexdigest(), 48)
    assert len(instances) == report["records"] == 12 * 4
    first = instances[0]
    assert (first["sample_id"], first["evaluation_name"]) == ("sum-1", "match")
    assert first["evaluation"] == {"score": 0, "is_correct": False}
    assert json.loads(first["output"]["raw"][0])["completion"] == "2, I think"


def test_an_episode_that_is_asked_again_shows_every_answer_of_which_its_score_is_the_mean(
    tmp_path: Path,
) -> None:
    again = Nth({"output_data": {**EXPECTED}}, WRONG, ERROR)
    export = EveryEvalEverExport(repeated_run(tmp_path, 1, 3, again).bundle)
    first: Any = next(export.instances())
    assert [*INSTANCE.iter_errors(first)] == []
    assert [json.loads(raw or "null") for raw in first["output"]["raw"]] == [
        EXPECTED,
        WRONG["output_data"],
        None,
    ]
    said = [one["extracted_value"] for one in first["answer_attribution"]]
    assert said == first["output"]["raw"]
    assert first["evaluation"] == {"score": 0.333333333, "is_correct": False}
