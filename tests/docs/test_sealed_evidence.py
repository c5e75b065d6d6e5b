"""The sealed bundles in `docs/evidence`: not stale, and the pages' commands do what they say.

`make soak` also plays the long ones again; `python -m tests.publish` makes stale ones anew.
"""

import json
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.model_roles import archives as roles
from tests.sealed_evidence import (
    EVIDENCE,
    GALLERY,
    JUDGE,
    MODELS,
    ROOT,
    SEALED,
    TEMPLATES,
    archive_of,
    of_others,
    unpacked,
)
from tests.theatre.forked_echelon import forked
from theatre.engine.bundle_check.standalone import verify

SOAK = os.environ.get("ECHELON_SOAK") == "1"
LONG = ("product_axion_pair_v1", "product_axion_pseudo_v1")
"""Each takes as long to check as to run; and what they come to depends on the coin."""
MOST_BYTES = 1_360_000

BLOCK = re.compile(r"<!-- executed: sealed -->\n```sh\n(.*?)```", re.DOTALL)
EXECUTED = {
    re.sub(r"\W.*", "", block.partition("docs/evidence/")[2]): block.splitlines()
    for page in sorted((ROOT / "docs").glob("*.md"))
    for block in BLOCK.findall(page.read_text(encoding="utf-8"))
}
"""The commands of the pages, by the theatre that they are about."""


def test_there_is_one_archive_of_each_and_together_they_stay_small() -> None:
    archives = sorted(EVIDENCE.iterdir())
    named = (*SEALED, *MODELS, JUDGE, *GALLERY, *roles(), *of_others(MODELS[-1]), *of_others(JUDGE))
    assert archives == [archive_of(name) for name in sorted(named)]
    assert sum(path.stat().st_size for path in archives) < MOST_BYTES


@pytest.mark.parametrize("name", SEALED)
def test_a_sealed_bundle_is_of_the_shipped_template_and_passes_both_checks(
    tmp_path: Path, name: str
) -> None:
    bundle = unpacked(name, tmp_path)
    committed = json.loads((bundle / "template.json").read_bytes())
    assert committed == json.loads((TEMPLATES / f"{name}.json").read_bytes())
    alone = verify(bundle, now=datetime.now(UTC))
    assert (alone.word, [one for one, found in alone.problems.items() if found]) == (
        "consistent",
        [],
    )
    if SOAK or name not in LONG:
        checked = forked("check", bundle, "--json", home=tmp_path / "home")
        assert (checked.code, checked.document["verdict"]) == (0, "consistent"), checked.stdout


@pytest.mark.parametrize("name", [name for name in SEALED if name not in LONG])
def test_a_sealed_run_without_draws_has_the_published_results(tmp_path: Path, name: str) -> None:
    sealed = json.loads((unpacked(name, tmp_path) / "certificate.json").read_bytes())
    expected = json.loads((TEMPLATES / f"{name}.expected.json").read_bytes())
    assert {one: sealed[one] for one in ("results_hash", "scores")} == {
        one: expected[one] for one in ("results_hash", "scores")
    }


def test_the_pages_show_how_to_make_a_sealed_run_again() -> None:
    assert set(EXECUTED) == {*LONG, "product_cartograph_v1"}
    for name, commands in EXECUTED.items():
        archive = archive_of(name).relative_to(ROOT)
        assert commands == [
            f"tar -xf {archive}",
            f"echelon check {name}",
            f"echelon reproduce {name}",
        ]


@pytest.mark.parametrize("name", SEALED if SOAK else ["product_cartograph_v1"])
def test_the_commands_of_the_pages_find_it_consistent_and_equal(tmp_path: Path, name: str) -> None:
    subprocess.run(["tar", "-xf", archive_of(name)], cwd=tmp_path, check=True)
    checked = forked("check", name, home=tmp_path / "home", cwd=tmp_path)
    assert (checked.code, checked.stdout.splitlines()[-1].split()[0]) == (0, "consistent")
    again = forked("reproduce", name, "--quiet", home=tmp_path / "home", cwd=tmp_path)
    assert (again.code, again.stdout.splitlines()[-1].split()[0]) == (0, "equal"), again.stderr
