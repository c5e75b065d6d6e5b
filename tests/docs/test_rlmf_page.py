"""`docs/rlmf.md` shows a record as it is exported, every member of it, and a check that works."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.forked_echelon import forked
from theatre.engine.rlmf_export import RLMF_SCHEMA
from theatre.engine.schema_registry import SchemaRegistry

PAGE = (REPOSITORY / "docs" / "rlmf.md").read_text(encoding="utf-8")
SCHEMA = json.loads((REPOSITORY / "docs" / "schemas" / RLMF_SCHEMA).read_bytes())
NUMERALS = REPOSITORY / "fixtures" / "templates" / "versions" / "product_numerals_v1.json"

OF_ONE_RUN: dict[str, tuple[str, ...]] = {
    "": ("episode_id", "theatre_id"),
    "settlement": ("resolution_timestamp",),
    "verification": ("invocation_latency_ms", "evidence_bundle_hash", "certificate_id"),
    "metadata": ("export_timestamp",),
}
"""Members that differ from run to run, by the object that they stand in."""


def code_block(language: str) -> str:
    """Return the only block of `language` on the page."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(block)


def first_cells(header: str) -> list[str]:
    """Return the names in the first cell of each row of the table with `header`."""
    rows = PAGE[PAGE.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])]


def of_any_run(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record without what differs from run to run."""
    for place, names in OF_ONE_RUN.items():
        holder = record[place] if place else record
        for name in names:
            del holder[name]
    return record


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The export of the example that the page is about."""
    home = tmp_path_factory.mktemp("rlmf") / "home"
    run = forked("theatre", "run", NUMERALS, "--json", home=home)
    export = forked("theatre", "export", run.document["theatre_id"], home=home)
    assert export.code == 0, export.stderr
    return export.stdout


def test_the_record_of_the_page_is_the_first_of_the_export(exported: str) -> None:
    shown = json.loads(code_block("json"))
    assert SchemaRegistry().validate(RLMF_SCHEMA, shown) == []
    first = json.loads(exported.splitlines()[0])
    assert of_any_run(shown) == of_any_run(first)


def test_the_lines_of_the_page_recompute_the_hash_of_each_ground_truth(
    exported: str, tmp_path: Path
) -> None:
    script = tmp_path / "recompute.py"
    script.write_text(code_block("python"), encoding="utf-8")
    forged = exported.replace('"digit_sum":7', '"digit_sum":8', 2)
    for records, first in ((exported, "True"), (forged, "False")):
        ended = subprocess.run(
            [sys.executable, script], input=records, capture_output=True, text=True, check=True
        )
        answers = ended.stdout.split()
        assert (len(answers), answers[0], set(answers[1:])) == (60, first, {"True"})


def test_the_table_has_every_member_of_a_record_once() -> None:
    assert sorted(first_cells("| member | how it is come by |")) == sorted(SCHEMA["properties"])


def test_every_value_of_quality_is_explained() -> None:
    metadata = cast("dict[str, Any]", SCHEMA["properties"]["metadata"])
    quality = metadata["properties"]["data_quality"]["enum"]
    assert first_cells("| value | when |") == quality
