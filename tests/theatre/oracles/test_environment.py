"""What a program under `{python}` can import, as one hash."""

import hashlib
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.axion.axion_theatres import template_of
from theatre.engine.canonical_json import JsonObject
from theatre.engine.templates import product_template
from theatre.oracles.construct_registry import ConstructRegistry
from theatre.oracles.endpoints import Places, environment_for, python_environment

FOLDER = Path(__file__).parent
# Asked of pip, not of what is tested: every distribution that a bare interpreter sees.
LIST = """
import hashlib, importlib.metadata, json, site
found = []
for one in importlib.metadata.distributions(path=site.getsitepackages()):
    record = next((f for f in one.files or [] if f.name == "RECORD"), None)
    sha256 = record and hashlib.sha256(record.locate().read_bytes()).hexdigest()
    found.append([one.metadata["Name"], one.version, sha256])
print(json.dumps(found))
"""


def test_it_is_the_hash_of_what_a_bare_interpreter_finds() -> None:
    said = subprocess.run([sys.executable, "-I", "-c", LIST], capture_output=True, check=True)
    found = sorted(json.loads(said.stdout), key=repr)
    assert [name for name, *_ in found if name.startswith("echelon")] == ["echelon-theatre"]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    assert python_environment() == {
        "environment_hash": hashlib.sha256(text.encode()).hexdigest(),
        "interpreter": f"CPython {platform.python_version()}",
        "platform": platform.platform(),
    }


REGISTRY = """
[constructs."axion.honest"]
argv = [{argv}]
folder = "."
files = ["*.py"]
"""


@pytest.mark.parametrize(
    ("argv", "is_seen"), [('"{python}", "{folder}/main.py"', True), ('"{folder}/main.py"', False)]
)
def test_it_is_that_of_a_program_that_the_running_python_runs(
    tmp_path: Path, argv: str, *, is_seen: bool
) -> None:
    (tmp_path / "main.py").write_text("")
    (tmp_path / "constructs.toml").write_text(REGISTRY.replace("{argv}", argv))
    places = Places(
        find=ConstructRegistry.load(tmp_path / "constructs.toml").find_registered, folder=FOLDER
    )
    seen = environment_for(product_template(template_of("honest")), places)
    assert seen == (python_environment() if is_seen else None)


def test_a_program_on_path_is_in_it_by_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "main.js").write_text("")
    argv = '"node", "{folder}/main.js"'
    (tmp_path / "constructs.toml").write_text(
        REGISTRY.replace("{argv}", argv).replace("*.py", "*.js")
    )
    places = Places(
        find=ConstructRegistry.load(tmp_path / "constructs.toml").find_registered, folder=FOLDER
    )
    for text in ("one", "another"):
        program = tmp_path / text / "node"
        program.parent.mkdir()
        program.write_text(text)
        program.chmod(0o700)
        monkeypatch.setenv("PATH", str(program.parent))
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        bound = f'{{"programs":[["node","{sha256}"]],"python":null}}'
        assert environment_for(product_template(template_of("honest")), places) == {
            "environment_hash": hashlib.sha256(bound.encode()).hexdigest(),
            "interpreter": f"node {sha256[:12]}",
            "platform": platform.platform(),
        }


@pytest.mark.parametrize("endpoint", ["https://construct.example/", "construct:unknown"])
def test_nothing_is_seen_of_what_runs_elsewhere_or_is_not_found(endpoint: str) -> None:
    document = json.loads(json.dumps(cast("Any", template_of("honest"))))
    config: JsonObject = document["product_theatre_config"]
    config |= {"adapter_type": "http", "adapter_endpoint": endpoint}
    document["version_pins"]["adapter_version"] = "http@1"
    places = Places(find=ConstructRegistry({}).find_registered, folder=FOLDER)
    assert environment_for(product_template(document), places) is None
