"""What the docs point to exists: files, headings, decisions, certificate fields, checks, caps."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from theatre.engine.bundle_check.report import CheckId

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
PAGES = sorted(
    [*CHECKOUT.glob("*.md"), *DOCS.rglob("*.md"), *(CHECKOUT / "fixtures").rglob("README.md")]
)
ADRS = sorted(path.name for path in (DOCS / "adr").glob("*.md") if path.name != "README.md")
CERTIFICATE = (DOCS / "certificate.md").read_text(encoding="utf-8")
FIELDS = "| field | what it says | where it comes from | the checks behind it |"


def prose(page: Path) -> str:
    """Return a page without its blocks of code, in which `#` is no heading."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^( *)(```|~~~).*?^\1\2 *$", "", text, flags=re.DOTALL | re.MULTILINE)


def relative_links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links and images that stay in the repository."""
    text = prose(page)
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
    referenced = re.findall(r"^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$", text, re.MULTILINE)
    for target in [*inline, *referenced]:
        if not re.match(r"[a-z][a-z0-9+.-]*:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """Return the anchors that a forge gives the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose(page), re.MULTILINE):
        label = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", label.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def is_dead(page: Path, target: str) -> bool:
    """Tell whether a link of `page` leads to no file, out of the repository, or to no heading."""
    path, _, fragment = unquote(target).partition("#")
    destination = (page.parent / path).resolve() if path else page
    if not destination.exists() or not destination.is_relative_to(CHECKOUT):
        return True
    is_page = destination.suffix == ".md"
    return bool(fragment) and is_page and fragment not in anchors(destination)


def names_in_column(column: int, header: str) -> list[str]:
    """Return the names in backticks in one column of every table of the page with `header`."""
    rule = "|---" * (header.count("|") - 1) + "|"
    names: list[str] = []
    for table in CERTIFICATE.split(f"{header}\n{rule}\n")[1:]:
        for row in table.split("\n\n")[0].splitlines():
            names += re.findall(r"`([^`]+)`", row.split("|")[column])
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert [target for target in relative_links(page) if is_dead(page, target)] == []


def test_links_are_found_and_dead_ones_told_from_live_ones() -> None:
    index = DOCS / "adr" / "README.md"
    assert set(ADRS) <= set(relative_links(index))
    assert not is_dead(index, "../templates.md#the-rules")
    dead = ["gone.md", "../templates.md#no-such-heading", "#no-such-heading", "../../../elsewhere"]
    assert [is_dead(index, target) for target in dead] == [True] * len(dead)


def test_decisions_are_numbered_without_a_gap_and_indexed_under_their_titles() -> None:
    assert [name[:4] for name in ADRS] == [f"{n:04d}" for n in range(1, len(ADRS) + 1)]
    titles = {}
    for name in ADRS:
        title = (DOCS / "adr" / name).read_text(encoding="utf-8").splitlines()[0]
        titles[name] = title.removeprefix("# ")
    index = (DOCS / "adr" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(.+?)\]\((\d{4}-[^)]+)\) \|", index, re.MULTILINE)
    assert {target: title for title, target in listed} == titles
    assert len(listed) == len(titles)


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
    source = (package / "tier_assigner" / "requirements.py").read_text(encoding="utf-8")
    yielded = re.findall(r'yield f?"([a-z0-9-]+)(:\{\w+\})?"', source)
    assert len(yielded) >= 20
    listed = names_in_column(1, "| code | what is missing |")
    plain = {re.sub(r":<\w+>$", "", code) for code in listed}
    assert {code for code, _ in yielded} | {
        "construct-not-isolated",
        "episodes-not-run",
        "gold-unpinned",
        "human-part-missing",
        "step-failed",
        "step-skipped",
        "version-unreported",
    } == plain
