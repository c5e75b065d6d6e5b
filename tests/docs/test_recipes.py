"""Each page of docs/recipes is done as it stands there; all but one in the soak."""

from pathlib import Path

import pytest

from tests.docs.test_first_steps import BLOCK, run
from theatre.cli.init_command import recipes

PAGES = Path(__file__).parents[2] / "docs" / "recipes"


def test_there_is_a_page_for_each_recipe() -> None:
    assert sorted(page.stem for page in PAGES.glob("*.md")) == recipes()


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_does_what_its_page_says(tmp_path: Path, name: str) -> None:
    folder = tmp_path
    printed = ""
    for kind, detail, text in BLOCK.findall((PAGES / f"{name}.md").read_text(encoding="utf-8")):
        if kind == "run":
            code, printed = 0, ""
            for line in text.splitlines():
                if line.startswith("cd "):
                    folder = tmp_path / line.removeprefix("cd ")
                    continue
                # A key of the machine must not be used.
                code, said = run(line.removeprefix("ANTHROPIC_API_KEY= "), folder)
                printed += said
            assert code == int(detail or 0), printed
        else:
            lines = printed.splitlines()
            for shown in text.splitlines():
                assert any(one.startswith(shown) for one in lines), f"{shown}\n{printed}"
