"""`docs/architecture.md` shows the code as it is: the states, and folders that there are."""

import re
import subprocess
from pathlib import Path

from theatre.engine.state_machine import VALID_TRANSITIONS

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")


def state_diagram() -> str:
    """Draw the transition table: states without a way in begin, states without one out end."""
    entered = {target for targets in VALID_TRANSITIONS.values() for target in targets}
    arrows = [f"[*] --> {state}" for state in VALID_TRANSITIONS if state not in entered]
    for state, targets in VALID_TRANSITIONS.items():
        arrows += [f"{state} --> {target}" for target in targets or ("[*]",)]
    return "".join(["stateDiagram-v2\n", *(f"    {arrow}\n" for arrow in arrows)])


def rows_under(header: str) -> list[str]:
    """Return the first cell, without backticks, of each row of the table with `header`."""
    table = PAGE[PAGE.index(header) :].split("\n\n")[0]
    return [line.split("|")[1].strip().strip("`") for line in table.splitlines()[2:]]


def test_the_state_diagram_is_the_transition_table() -> None:
    assert f"```mermaid\n{state_diagram()}```\n" in PAGE


def test_the_table_of_states_has_every_state_in_order() -> None:
    assert rows_under("| state | what holds |") == [state.value for state in VALID_TRANSITIONS]


def test_every_folder_and_module_that_is_named_exists() -> None:
    named = {*rows_under("| folder | what is in it |"), *re.findall(r"`(\w+/[\w/.]*\w)`", PAGE)}
    assert [name for name in sorted(named) if not (CHECKOUT / name).exists()] == []


def test_the_top_level_holds_its_folders_and_nothing_that_slipped_in() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=CHECKOUT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    folders = {name.split("/")[0] for name in tracked if "/" in name}
    hidden = {name for name in folders if name.startswith(".")}
    assert folders - hidden == {"backend", "docs", "fixtures", "migrations", "tests", "theatre"}
    assert [name for name in tracked if not re.match(r"[\w.]", name)] == []
