"""Logs that inspect_ai and promptfoo wrote, and a run of one of them."""

from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forked_echelon import forked

LOGS = Path(__file__).parents[3] / "fixtures" / "harness" / "logs"


def echelon(folder: Path, *arguments: str | Path) -> dict[str, Any]:
    """Run a command with --json that must end well, with a store in `folder`."""
    answer = forked(*arguments, "--json", home=folder / "home")
    assert answer.code == 0, answer.stderr
    return answer.document


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of an imported log of inspect_ai, and the bundle of its run."""
    folder = tmp_path_factory.mktemp("imported")
    echelon(folder, "import", "inspect", LOGS / "sums-12.json", "--out", folder / "log")
    report = echelon(folder, "theatre", "run", folder / "log" / "template.json", "--quiet")
    return folder / "log", Path(report["bundle_path"])
