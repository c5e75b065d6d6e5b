"""What docs/trust.md shows as commands is done, in an empty folder."""

import json
import re
from pathlib import Path

import pytest

from tests.docs.test_first_steps import run

PAGE = Path(__file__).parents[2] / "docs" / "trust.md"
COMMANDS = re.compile(r"<!-- run: publish -->\n```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_a_log_is_published_and_followed_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (commands,) = COMMANDS.findall(PAGE.read_text(encoding="utf-8"))
    code, printed = run(commands, tmp_path)
    assert code == 0, printed
    assert "2 entries, held to the signed root" in printed.replace("new       ", "")
    assert {path.name for path in (tmp_path / "public").iterdir()} == {
        "checkpoint",
        "tile",
        "trust.json",
    }
    trust = json.loads((tmp_path / "public" / "trust.json").read_bytes())
    assert len(trust["keys"]) == 2
