"""Whatever code, tests and pages cite is there: pages, sections, decisions, requirements, files.

The changelog is history and is not read.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
INVENTED = ("fixtures/constructs/oracles/", "tests/theatre/verification/")
"""Folders with changes that were made up: the pages that these name are not ours."""
MADE = {"theatre/_resources"}
"""What a page names and only a wheel has."""
FOLDERS = ("backend", "docs", "fixtures", "migrations", "tests", "theatre")
ADRS = sorted((DOCS / "adr").glob("0*.md"))
REQUIREMENTS = DOCS / "requirements.md"

PAGE = r"docs/[\w/-]+\.md"
SECTIONS = r"§[\d.]*\d(?:(?:-|, | and )§[\d.]*\d)*"
HEADINGS = r'"[^"]+"(?:(?:, | and )"[^"]+")*'


def read_files() -> Iterator[Path]:
    """Yield all that may cite: sources, pages, settings, the description of the interface."""
    yield from (CHECKOUT / name for name in ("README.md", "Makefile", "pyproject.toml"))
    yield DOCS / "openapi.json"
    for folder in FOLDERS:
        for suffix in ("py", "md", "toml"):
            yield from (CHECKOUT / folder).rglob(f"*.{suffix}")


def name_of(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def prose(page: Path) -> str:
    """Return a page without its blocks of code, in which `#` is no heading."""
    return re.sub(r"^( *)(```|~~~).*?^\1\2 *$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


@cache
def headings(page: Path) -> tuple[str, ...]:
    found = re.findall(r"^#{1,6} +(.+?) *#*$", prose(page), re.MULTILINE) if page.is_file() else []
    return tuple(found)


@cache
def sections(page: Path) -> frozenset[str]:
    """Return the numbers of a page's numbered sections."""
    numbers = (re.match(r"([\d.]*\d) ", heading) for heading in headings(page))
    return frozenset(number[1] for number in numbers if number)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that a forge gives the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in headings(page):
        label = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", label.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)


def relative_links(page: Path) -> Iterator[tuple[str, str]]:
    """Yield text and target of a page's links and images that stay in the repository."""
    inline = re.findall(r"\[([^\]\[]*)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", prose(page))
    referenced = re.findall(r"^\s{0,3}\[([^\]]+)\]:\s*<?(\S+?)>?\s*$", prose(page), re.MULTILINE)
    for text, target in [*inline, *referenced]:
        if not re.match(r"[a-z][a-z0-9+.-]*:", target):
            yield text, target


def is_dead(page: Path, text: str, target: str) -> bool:
    """Tell whether a link leads to no file, to no heading, or to another section than it says."""
    path, _, fragment = unquote(target).partition("#")
    destination = (page.parent / path).resolve() if path else page
    if not destination.exists() or not destination.is_relative_to(CHECKOUT):
        return True
    if not fragment or destination.suffix != ".md":
        return False
    number = re.search(r"§([\d.]*\d)$", text)
    wanted = number[1].replace(".", "") + "-" if number else ""
    return fragment not in anchors(destination) or not fragment.startswith(wanted)


def flowed(text: str) -> str:
    """Return a text as one line: a citation may be broken by a line's end and a comment's sign."""
    return re.sub(r"\s+(?:# )?", " ", text)


def is_named(path: Path) -> bool:
    """Tell whether there is such a file or folder; a test is named below `tests`."""
    below = CHECKOUT / "tests" / path.relative_to(CHECKOUT)
    return path.exists() or path.with_suffix(".py").exists() or below.is_file()


def wrong_pages(text: str) -> Iterator[str]:
    """Yield pages, sections and headings that are cited and that there are not."""
    if "docs/" not in text:
        return
    for page in re.findall(rf"(?<![\w/]){PAGE}", text):
        if not (CHECKOUT / page).is_file():
            yield page
    for page, numbers in re.findall(rf"({PAGE}) ({SECTIONS})", text):
        missing = set(re.findall(r"[\d.]*\d", numbers)) - sections(CHECKOUT / page)
        yield from (f"{page} §{number}" for number in sorted(missing))
    for page, names in re.findall(rf"({PAGE}), ({HEADINGS})", text):
        missing = set(re.findall(r'"([^"]+)"', names)) - set(headings(CHECKOUT / page))
        yield from (f'{page}, "{name}"' for name in sorted(missing))


def wrong_numbers(text: str) -> Iterator[str]:
    """Yield decisions and requirements that are cited and that there are not."""
    for number in re.findall(r"(?:ADRs? |docs/adr/)(\d{4})", text):
        if not any(adr.name.startswith(number) for adr in ADRS):
            yield f"ADR {number}"
    for number in re.findall(r"requirements\.md (R\d+)", text):
        if f"| {number} |" not in text_of(REQUIREMENTS):
            yield f"requirement {number}"


def wrong_modules(page: str) -> Iterator[str]:
    """Yield files and folders that a page names and that there are not."""
    named = set(re.findall(r"`((?:backend|tests|theatre)/[\w/.]*\w)", page)) - MADE
    yield from sorted(name for name in named if not is_named(CHECKOUT / name))


def unknown_sources(code: str) -> Iterator[str]:
    """Yield sections in code that are neither of a page here nor of an RFC."""
    # Few have any, and it takes long to look.
    if "§" in code:
        known = rf"{PAGE} {SECTIONS}|RFC \d+,? §[\d.]*\d"
        yield from re.findall(r"\S+ §[\d.]*\d", re.sub(known, "", code))
    yield from re.findall(r"(?<!docs/)(?<!\")contract/[a-z-]+\.md", code)


def wrong_citations(path: Path, text: str) -> Iterator[str]:
    """Yield what `text`, that of `path`, cites and is not there."""
    text = flowed(text)
    yield from wrong_pages(text)
    yield from wrong_numbers(text)
    yield from wrong_modules(text) if path.suffix == ".md" else unknown_sources(text)
    yield from re.findall(r"spec/[a-z-]+\.md|BUTTERFREEZONE", text)


def wrong_own_sections(page: Path) -> set[str]:
    """Return the sections of its own that a contract cites and that it lacks."""
    elsewhere = rf"\[[^\]]*\]\([^)]*\)(?: {SECTIONS})?|{PAGE} {SECTIONS}|RFC \d+,? §[\d.]*\d"
    own = re.sub(elsewhere, "", flowed(prose(page)))
    return set(re.findall(r"§([\d.]*\d)", own)) - sections(page)


PAGES = [path for path in read_files() if path.suffix == ".md"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    dead = [link for link in relative_links(page) if is_dead(page, *link)]
    assert dead == []


def test_what_is_cited_is_there() -> None:
    cited = {name_of(path): [*wrong_citations(path, text_of(path))] for path in read_files()}
    cited.pop(name_of(Path(__file__)))
    ours = {name: wrong for name, wrong in cited.items() if not name.startswith(INVENTED)}
    assert {name: wrong for name, wrong in ours.items() if wrong} == {}


def test_the_contracts_cite_sections_that_they_have() -> None:
    pages = sorted((DOCS / "contract").glob("*.md"))
    assert {page.name: wrong_own_sections(page) for page in pages if wrong_own_sections(page)} == {}


def test_wrong_citations_are_found() -> None:
    """Each kind of citation, with one that is right next to one that is wrong."""
    text = """See docs/gone.md; docs/contract/evidence.md §1 and
    # §99; docs/contract/earned.md §5.1-§5.9; docs/design/tests.md, "Parts of
    the soak" and "No such part"; ADR 0006, ADR 0010, docs/adr/0018; RFC 9110 §13, design §3;
    docs/requirements.md R1, requirements.md R999; contract/evidence.md; spec/theatre.md"""
    assert [*wrong_citations(Path("some.py"), text)] == [
        "docs/gone.md",
        "docs/contract/evidence.md §99",
        "docs/contract/earned.md §5.9",
        'docs/design/tests.md, "No such part"',
        "ADR 0010",
        "requirement R999",
        "design §3",
        "contract/evidence.md",
        "spec/theatre.md",
    ]


def test_dead_links_are_told_from_live_ones() -> None:
    page = DOCS / "design" / "README.md"
    assert not is_dead(page, "evidence §4", "../contract/evidence.md#4-evidence-bundle")
    dead = [
        ("", "gone.md"),
        ("", "#no-such-heading"),
        ("", "../../../elsewhere"),
        ("", "../contract/evidence.md#no-such-heading"),
        ("evidence §3", "../contract/evidence.md#4-evidence-bundle"),
    ]
    assert [is_dead(page, text, target) for text, target in dead] == [True] * len(dead)


def test_modules_that_are_not_there_are_found() -> None:
    text = (
        "`theatre/engine/clock.py`, `theatre/engine`, `theatre/test_models.py`, `theatre/clock.py`"
    )
    assert [*wrong_citations(Path("some.md"), text)] == ["theatre/clock.py"]


def test_decisions_are_dated_and_indexed_under_their_titles() -> None:
    titles = {}
    for adr in ADRS:
        title, empty, status, *_ = text_of(adr).splitlines()
        assert re.match(r"Date: \d{4}-\d\d-\d\d\. Status: ", status), adr.name
        assert (title[:7], empty) == (f"# {adr.name[:4]} ", "")
        titles[adr.name] = title.removeprefix("# ")
    index = text_of(DOCS / "adr" / "README.md")
    listed = re.findall(r"^- \[(.+?)\]\((0[^)]+)\)$", index, re.MULTILINE)
    assert {target: title for title, target in listed} == titles
    assert len(listed) == len({name[:4] for name in titles}) == len(titles)
    assert f"(the highest is {max(titles)[:4]})" in index


def test_requirements_are_numbered_and_name_files_that_there_are() -> None:
    rows = re.findall(
        r"^\| R(\d+) \| (.+) \| (.+) \| (.+) \|$", text_of(REQUIREMENTS), re.MULTILINE
    )
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    named = {
        path for row in rows for path in re.findall(r"`((?:theatre|backend)/[\w/.]+)`", row[2])
    }
    assert sorted(path for path in named if not (CHECKOUT / path).exists()) == []
    tests = {path for row in rows for path in re.findall(r"`([\w/]+\.py)`", row[3])}
    assert sorted(path for path in tests if not (CHECKOUT / "tests" / path).is_file()) == []
