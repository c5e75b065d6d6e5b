"""`python` over HTTP: functions of modules that the operator lists, and nothing else."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backend.errors import SettingsError
from backend.main import create_app
from backend.services.resources import TheatreResources
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.runs import with_changes
from theatre.oracles.construct_registry import construct_version
from theatre.oracles.errors import UnknownConstructError
from theatre.oracles.in_process import ListedModules

ADDER = """
from os import system
from subprocess import run as start

from theatre.construct_kit import construct

borrowed = system


@construct(id="sums")
def add(input_data):
    return {"sum": sum(input_data["numbers"])}


def _private(input_data):
    return {}


class Thing:
    def method(self):
        return {}


def outer(input_data):
    def inner(input_data):
        return {}
    return inner(input_data)
"""
CONFIG = "/product_theatre_config"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Hold the listed modules, and others next to them."""
    folder = tmp_path / "modules"
    (folder / "pack").mkdir(parents=True)
    for name in ("adder", "other", "pack/__init__", "pack/inside"):
        (folder / f"{name}.py").write_text(ADDER)
    (tmp_path / "outside.py").write_text(ADDER)
    (folder / "linked.py").symlink_to(tmp_path / "outside.py")
    return folder


@pytest.fixture
def modules(folder: Path) -> ListedModules:
    return ListedModules(folder=folder, names=frozenset({"adder", "pack.inside", "linked", "gone"}))


@pytest.mark.parametrize("target", ["adder:add", "adder:outer", "pack.inside:add"])
def test_a_public_function_of_a_listed_module_is_found(modules: ListedModules, target: str) -> None:
    assert target in modules.find("adder", target).argv


@pytest.mark.parametrize(
    "target",
    [
        *("other:add", "os:system", "pack:add", "pack.other:add", "adder.add:add", "Adder:add"),
        *("adder:system", "adder:start", "adder:borrowed", "adder:construct", "adder:Thing"),
        *("adder:_private", "adder:__builtins__", "adder:inner", "adder:method", "adder:nothing"),
        *(
            "adder:add.__globals__",
            "adder:Thing.method",
            "adder:add:add",
            "adder.:add",
            ".adder:add",
        ),
        *("adder", "adder:", ":add", "", "../outside:add", "linked:add", "gone:add", "adder :add"),
        *("construct:add", "\uff41dder:add", "adder:\uff41dd", "adder:add\n"),
    ],
)
def test_nothing_else_is(modules: ListedModules, target: str) -> None:
    with pytest.raises(UnknownConstructError) as refused:
        modules.find("adder", target)
    # What others wrote is not said back.
    assert target == "" or target not in str(refused.value).replace("public function", "")


@pytest.fixture
def stage(tmp_path: Path) -> SumsStage:
    return sums_stage(tmp_path / "stage", sums(2))


@pytest.fixture
def client(database: Database, tmp_path: Path, stage: SumsStage, folder: Path) -> Iterator[Client]:
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    listing = settings.model_copy(update={"python_modules": ("adder",), "python_folder": folder})
    with served(create_app(listing)) as client:
        yield client.registered("ada")


def named(stage: SumsStage, target: str, version: str = "c0ffee0") -> dict[str, Any]:
    changes: dict[str, Any] = {
        f"{CONFIG}/adapter_type": "python",
        f"{CONFIG}/adapter_endpoint": target,
        "/version_pins/adapter_version": "python@1",
        f"/version_pins/constructs/{CONSTRUCT_ID}": version,
    }
    return dict(with_changes(stage.template, changes))


def test_a_listed_function_is_certified_and_what_is_not_listed_makes_no_theatre(
    client: Client, stage: SumsStage, modules: ListedModules
) -> None:
    for target, slug in (
        ("other:add", "template-invalid"),
        ("construct:add", "template-invalid"),
        ("adder:system", "construct-unknown"),
    ):
        refused = client.post("/theatres", {"template_json": named(stage, target)})
        assert (refused.status, refused.slug) == (422, slug)
    version = construct_version(modules.find(CONSTRUCT_ID, "adder:add"))
    theatre = run(client, committed(client, named(stage, "adder:add", version))).document
    assert theatre["outcome"] == "certified", theatre["outcome_reason"]


def test_without_a_setting_no_module_is_listed(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        refused = client.registered("ada").post(
            "/theatres", {"template_json": named(stage, "adder:add")}
        )
    assert (refused.status, refused.slug) == (422, "template-invalid")
    (problem,) = refused.document["errors"]
    assert problem["rule"] == "python-adapter-local"
    assert "a module that the operator lists" in problem["detail"]


def test_modules_without_their_folder_start_no_service(database: Database, tmp_path: Path) -> None:
    settings = settings_for(database, tmp_path / "home")
    listing = settings.model_copy(update={"python_modules": ("adder",)})
    with pytest.raises(SettingsError, match="ECHELON_PYTHON_FOLDER"):
        TheatreResources.of(listing, clock=lambda: datetime.now(UTC))
