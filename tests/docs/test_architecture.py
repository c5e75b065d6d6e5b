"""`docs/architecture.md` shows the code as it is: states, folders, import directions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from theatre.engine.state_machine import VALID_TRANSITIONS

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of `language`, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def state_diagram() -> str:
    """Draw the transition table: states without a way in begin, states without one out end."""
    entered = {target for targets in VALID_TRANSITIONS.values() for target in targets}
    arrows = [f"[*] --> {state}" for state in VALID_TRANSITIONS if state not in entered]
    for state, targets in VALID_TRANSITIONS.items():
        arrows += [f"{state} --> {target}" for target in targets or ("[*]",)]
    return "".join(["stateDiagram-v2\n", *(f"    {arrow}\n" for arrow in arrows)])


def import_layers(contract_name: str) -> str:
    """Return the layers of an import contract, one a line."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (item["layers"] for item in contracts if item["name"] == contract_name)
    return "".join(f"{layer}\n" for layer in layers)


def rows_under(header: str) -> list[str]:
    """Return the first cell, without backticks, of each row of the table with `header`."""
    lines = PAGE[PAGE.index(header) :].splitlines()[2:]
    cells = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells.append(line.split("|")[1].strip().strip("`"))
    return cells


def test_the_state_diagram_is_the_transition_table() -> None:
    assert blocks("mermaid") == [state_diagram()]


def test_the_table_of_states_has_every_state_in_order() -> None:
    assert rows_under("| state | what holds |") == [state.value for state in VALID_TRANSITIONS]


@pytest.mark.parametrize(
    "contract",
    [
        "Rooms of the package",
        "Floors of the service",
        "Floors of the independent check",
        "Floors of the pseudo-axion audit",
        "Pipeline order of the engine",
    ],
)
def test_the_import_directions_are_those_that_the_build_enforces(contract: str) -> None:
    assert import_layers(contract) in blocks("text")


def test_every_folder_that_is_named_exists() -> None:
    folders = rows_under("| folder | what is in it |")
    assert [name for name in folders if not (CHECKOUT / name).is_dir()] == []


def test_every_room_of_the_package_is_in_the_table_of_folders() -> None:
    rooms = {
        f"theatre/{path.name}/"
        for path in (CHECKOUT / "theatre").iterdir()
        if path.is_dir() and not path.name.startswith(("_", "."))
    }
    named = {name for name in rows_under("| folder | what is in it |") if name.startswith("th")}
    assert named == rooms


def test_every_module_of_the_engine_is_in_its_table() -> None:
    modules = {
        path.stem
        for path in (CHECKOUT / "theatre" / "engine").iterdir()
        if not path.name.startswith(("_", "."))
    }
    named = rows_under("| module | what it does |")
    assert (set(named), len(named)) == (modules, len(modules))


def test_every_module_of_the_service_is_in_its_table() -> None:
    service = CHECKOUT / "backend"
    named = rows_under("| module of the service | what it does |")
    packages = [service / name for name in named if (service / name).is_dir()]
    modules = {
        str(path.relative_to(service).with_suffix(""))
        for path in service.rglob("*.py")
        if not path.stem.startswith("_") and not set(path.parents) & set(packages)
    }
    assert modules | {str(path.relative_to(service)) for path in packages} == set(named)


def test_every_module_of_the_audit_is_in_its_table() -> None:
    folder = CHECKOUT / "theatre" / "axion"
    modules = {
        str(path.relative_to(folder).with_suffix(""))
        for path in folder.rglob("*.py")
        if not path.stem.startswith("_")
    }
    named = rows_under("| module of the audit | what it does |")
    assert (set(named), len(named)) == (modules, len(modules))


def test_every_module_of_the_check_is_in_its_table() -> None:
    folder = CHECKOUT / "theatre" / "engine" / "bundle_check"
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    named = rows_under("| module of the check | what it does |")
    assert (set(named), len(named)) == (modules, len(modules))


def test_every_module_of_the_replay_loop_is_in_its_table() -> None:
    folder = CHECKOUT / "theatre" / "engine" / "replay"
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    named = rows_under("| module of the loop | what it does |")
    assert (set(named), len(named)) == (modules, len(modules))


def test_every_module_of_debates_is_in_its_table() -> None:
    folder = CHECKOUT / "theatre" / "debate"
    modules = {path.stem for path in folder.iterdir() if not path.name.startswith(("_", "."))}
    named = rows_under("| module of debates | what it does |")
    assert (set(named), len(named)) == (modules, len(modules))


def test_every_module_of_verification_is_in_its_table() -> None:
    folder = CHECKOUT / "theatre" / "verification"
    modules = {
        path.relative_to(folder).with_suffix("").as_posix()
        for path in folder.rglob("*.py")
        if not path.stem.startswith("_")
    }
    named = rows_under("| module of verification | what it does |")
    assert (set(named), len(named)) == (modules, len(modules))


def test_what_comes_later_is_not_there_yet() -> None:
    (paragraph,) = re.findall(r"\*\*Comes later.*?\n\n", PAGE, re.DOTALL)
    later = set(re.findall(r"`((?:theatre|backend|migrations)[\w/]*/)`", paragraph))
    assert len(later) >= 1
    assert [name for name in sorted(later) if (CHECKOUT / name).exists()] == []
