"""`docs/certificate.md` explains each field, each check and each code that there is."""

import json
import re
from pathlib import Path

from theatre.engine.bundle_check.report import CheckId

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
CERTIFICATE = (DOCS / "certificate.md").read_text(encoding="utf-8")
FIELDS = "| field | what it says | where it comes from | the checks behind it |"


def names_in_column(column: int, header: str) -> list[str]:
    """Return the names in backticks in one column of every table of the page with `header`."""
    rule = "|---" * (header.count("|") - 1) + "|"
    names: list[str] = []
    for table in CERTIFICATE.split(f"{header}\n{rule}\n")[1:]:
        for row in table.split("\n\n")[0].splitlines():
            names += re.findall(r"`([^`]+)`", row.split("|")[column])
    return names


def test_the_certificate_page_explains_each_field_once() -> None:
    schema = json.loads((DOCS / "schemas" / "echelon_certificate_schema.json").read_bytes())
    assert sorted(names_in_column(1, FIELDS)) == sorted(schema["properties"])


def test_the_certificate_page_names_each_check_that_there_is() -> None:
    checks = {check.value for check in CheckId}
    assert {name for name in checks if f"`{name}`" not in CERTIFICATE} == set()
    covering = names_in_column(4, FIELDS)
    assert len(covering) >= 39
    assert set(covering) <= checks


def test_the_certificate_page_lists_each_code_that_caps_a_tier() -> None:
    package = CHECKOUT / "theatre" / "engine"
    source = (package / "tier_assigner" / "assigner.py").read_text(encoding="utf-8")
    yielded = re.findall(r'yield f?"([a-z0-9-]+)(:\{\w+\})?"', source)
    assert len(yielded) >= 20
    listed = names_in_column(1, "| code | what is missing |")
    plain = {re.sub(r":<\w+>$", "", code) for code in listed}
    assert {code for code, _ in yielded} | {
        *("construct-not-isolated", "episodes-not-run", "episodes-withheld", "gold-unpinned"),
        *("human-part-missing", "ratings-too-few", "step-failed", "step-skipped"),
        "version-unreported",
    } == plain
