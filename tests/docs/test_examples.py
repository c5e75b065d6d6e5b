"""The shipped constructs and templates run by themselves: each has a README that says how."""

import json
import re
from pathlib import Path

import pytest

from theatre.oracles.construct_files import listed_files
from theatre.oracles.construct_registry import ConstructRegistry, RegisteredConstruct, read_entries

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONSTRUCTS, TEMPLATES = FIXTURES / "constructs", FIXTURES / "templates"
REGISTRY = CONSTRUCTS / "constructs.toml"
FOLDERS = sorted(path for path in CONSTRUCTS.iterdir() if path.is_dir())
COMMAND = re.compile(r"^## Run (?:it|them)\n\n```sh\n(.+)\n```$", re.MULTILINE)
ROW = re.compile(
    r"^\| `(product_\w+)` \| (`.+`) \| .+ \| (\d+) \| ([\d.]+|-) \| (\w+|-) \|$", re.MULTILINE
)
COIN = 0.02
"""How far a composite may lie from the published one: the coin draws some of what is asked."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_of_constructs_says_with_one_command_how_they_run(folder: Path) -> None:
    (command,) = COMMAND.findall((folder / "README.md").read_text(encoding="utf-8"))
    if command.startswith("echelon theatre run "):
        template = json.loads((FIXTURES.parent / command.split()[-1]).read_bytes())
        entries = read_entries(REGISTRY)
        own = {name for name, one in entries.items() if getattr(one, "folder", "") == folder.name}
        assert template["version_pins"]["constructs"].keys() & own
    if " -m pytest " in command:
        assert (FIXTURES.parent / command.split()[-1]).is_file()


def test_no_readme_is_part_of_a_version() -> None:
    for name in read_entries(REGISTRY):
        construct = ConstructRegistry.load(REGISTRY).find(name)
        assert isinstance(construct, RegisteredConstruct)
        assert "README.md" not in listed_files(construct.folder, construct.files)


def test_the_table_of_templates_has_each_with_what_comes_out() -> None:
    rows = ROW.findall((TEMPLATES / "README.md").read_text(encoding="utf-8"))
    names = {path.stem for path in TEMPLATES.glob("product_*.json")}
    assert [name for name, *_ in rows] == sorted(
        name for name in names if not name.endswith(".expected")
    )
    for name, constructs, _, composite, _ in rows:
        template = json.loads((TEMPLATES / f"{name}.json").read_bytes())
        assert re.findall(r"`([\w.]+)`", constructs) == [*template["version_pins"]["constructs"]]
        published = TEMPLATES / f"{name}.expected.json"
        if published.exists() and composite != "-":
            scores = json.loads(published.read_bytes())["scores"]
            weights = template["criteria"].get("weights") or dict.fromkeys(scores, 1)
            total = sum(weights[one] for one in scores if scores[one] is not None)
            weighed = sum(weights[one] * (scores[one] or 0) for one in scores)
            assert float(composite) == pytest.approx(weighed / total, abs=COIN)
