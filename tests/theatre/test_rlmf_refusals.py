"""A bundle that is not as it was sealed is not exported; the schema of a record is closed."""

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.rlmf_runs import EXPORTED_AT, every_ending, export
from tests.theatre.runs import Finished
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import BundleError, NotFoundError, RlmfExportError
from theatre.engine.rlmf_export import RLMF_SCHEMA, RlmfExport
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return every_ending(tmp_path_factory.mktemp("finished"))


class RefusingRegistry(SchemaRegistry):
    """Finds fault with the second record."""

    def validate_cached(self, schema_name: str) -> Callable[[object], list[SchemaViolation]]:
        """Return one violation for timestep 2."""
        validate = super().validate_cached(schema_name)

        def refusing(document: object) -> list[SchemaViolation]:
            if cast("JsonObject", document)["timestep"] == 2:
                return [SchemaViolation("/settlement", "schema:type", "expected object, got null")]
            return validate(document)

        return refusing


def test_a_record_that_breaks_its_schema_does_not_leave(finished: Finished) -> None:
    lines = RlmfExport(finished.bundle, RefusingRegistry(), exported_at=EXPORTED_AT).lines()
    assert parse_object(next(lines))["timestep"] == 1
    with pytest.raises(
        RlmfExportError,
        match=r"record of episode 2 that fits echelon_rlmf_schema\.json, got: /settlement: expec",
    ):
        next(lines)


def test_where_there_is_no_bundle_there_is_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="expected an evidence bundle at "):
        RlmfExport(tmp_path, SchemaRegistry(), exported_at=EXPORTED_AT)


SUMMED = [
    "template.json",
    "ground_truth/dataset.jsonl",
    "scores/per_episode.jsonl",
    "scores/aggregate.json",
    "invocations/episode_000003.json",
    "audit_trail.jsonl",
]


@pytest.mark.parametrize("path", SUMMED)
@pytest.mark.parametrize("change", ["changed", "gone"])
def test_a_bundle_that_is_not_as_it_was_sealed_is_not_exported(
    finished: Finished, tmp_path: Path, path: str, change: str
) -> None:
    forged = tmp_path / "forged"
    shutil.copytree(finished.bundle, forged)
    if change == "gone":
        (forged / path).unlink()
    else:
        (forged / path).write_bytes((forged / path).read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(BundleError, match=rf"^expected {path} as it was sealed "):
        RlmfExport(forged, SchemaRegistry(), exported_at=EXPORTED_AT)


@pytest.mark.parametrize(
    ("path", "raw", "message"),
    [
        ("SHA256SUMS", b"", r"^expected a bundle with hash [0-9a-f]{64}, got e3b0c442"),
        ("SHA256SUMS", None, r"^expected SHA256SUMS in the bundle, got: No such file"),
        ("certificate.json", b"{", r"^expected certificate\.json as JSON in the bundle, got: "),
        ("certificate.json", b"{}", r"^expected a bundle with hash None, got "),
    ],
)
def test_a_bundle_without_its_anchors_is_not_exported(
    finished: Finished, tmp_path: Path, path: str, raw: bytes | None, message: str
) -> None:
    forged = tmp_path / "forged"
    shutil.copytree(finished.bundle, forged)
    (forged / path).unlink()
    if raw is not None:
        (forged / path).write_bytes(raw)
    with pytest.raises(BundleError, match=message):
        RlmfExport(forged, SchemaRegistry(), exported_at=EXPORTED_AT)


# --- the schema ------------------------------------------------------------------------------

OPEN = ("input_data", "construct_output", "expected_output", "label")


def objects(value: object, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every object of a record whose members the schema names."""
    if isinstance(value, dict):
        yield at
        for name, item in value.items():
            if name not in {*OPEN, "criteria_scores", "construct_chain_versions"}:
                yield from objects(item, (*at, name))


def inside(record: JsonObject, path: tuple[str, ...]) -> dict[str, Any]:
    value: Any = record
    for name in path:
        value = value[name]
    return cast("dict[str, Any]", value)


def test_no_member_of_a_record_can_be_left_out_or_added(finished: Finished) -> None:
    record = export(finished.bundle)[0]
    registry = SchemaRegistry()
    assert registry.validate(RLMF_SCHEMA, record) == []
    # The one member that a record may be without.
    del record["calibration"]
    assert registry.validate(RLMF_SCHEMA, record) == []
    checked = 0
    for path in objects(record):
        for name in inside(record, path):
            without = copy.deepcopy(record)
            del inside(without, path)[name]
            assert registry.validate(RLMF_SCHEMA, without) != [], (*path, name)
            checked += 1
        more = copy.deepcopy(record)
        inside(more, path)["more"] = 1
        assert registry.validate(RLMF_SCHEMA, more) != [], path
    assert checked == 45


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ((), "episode_id", "pilot-1"),
        ((), "theatre_id", "product_pilot_v1"),
        ((), "execution_path", "market"),
        ((), "config_hash", "0x" + "ab" * 32),
        ((), "timestep", 0),
        ((), "replay_output_class", ""),
        (("settlement",), "success", "yes"),
        (("settlement",), "resolution_mode", "guess"),
        (("settlement",), "criteria_scores", {"colour": 1.1}),
        (("settlement",), "resolution_timestamp", "2026-12-01"),
        (("verification",), "invocation_status", "SUCCESS"),
        (("verification",), "invocation_latency_ms", -1),
        (("verification",), "verification_tier", "GOLD"),
        (("metadata",), "schema_version", "1.0.0"),
        (("metadata",), "data_quality", "splendid"),
        (("state_features",), "ground_truth_ref", "ground_truth/dataset.jsonl#1"),
        (("state_features",), "input_data", None),
    ],
)
def test_the_schema_refuses_what_does_not_fit(
    finished: Finished, path: tuple[str, ...], name: str, value: object
) -> None:
    record = copy.deepcopy(export(finished.bundle)[0])
    inside(record, path)[name] = value
    assert SchemaRegistry().validate(RLMF_SCHEMA, record) != []
