"""What `import theatre` shows, and what each name of it loads: modules are counted, not time."""

import json
import subprocess
import sys

import pytest

import theatre

HEAVY = {
    *("asyncio", "numpy", "httptools", "cryptography", "click", "jsonschema", "pydantic"),
    "theatre.oracles",
    *("theatre.engine.replay", "theatre.engine.scoring", "theatre.engine.bundle_check.check"),
}
LOADED_BY_NAME = f"""
import json, sys

before = set(sys.modules)
import theatre

report = {{"": sorted(set(sys.modules) - before)}}
for name in theatre.__all__:
    getattr(theatre, name)
    report[name] = sorted(set(sys.modules) & {HEAVY!r})
print(json.dumps(report))
"""
LOADED_BY_PLUGIN = """
import json, os, sys
import heapq, pytest, typing

os.environ.pop("ECHELON_INSPECT", None)
before = set(sys.modules)
import {0}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def printed_by(program: str) -> object:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, check=True, timeout=120
    )
    return json.loads(ended.stdout)


def test_there_are_few_public_names_and_no_others() -> None:
    assert len(theatre.__all__) <= 20
    assert dir(theatre) == sorted(theatre.__all__, key=str) == [*theatre.__all__]
    own = {name for name, value in vars(theatre).items() if not name.startswith("_")}
    submodules = {name for name in own if f"theatre.{name}" in sys.modules}
    assert own - submodules <= {*theatre.__all__}


def test_every_public_name_is_there_and_documented() -> None:
    for name in theatre.__all__:
        value = getattr(theatre, name)
        assert value.__doc__, name
        assert not value.__name__.startswith("_")


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'commit'"):
        _ = theatre.commit


def test_who_imports_a_name_waits_for_nothing_that_it_does_not_use() -> None:
    loaded = printed_by(LOADED_BY_NAME)
    assert isinstance(loaded, dict)
    assert [name for name in loaded[""] if name.startswith("theatre")] == ["theatre"]
    assert len(loaded[""]) < 40
    assert {name: heavy for name, heavy in loaded.items() if name and heavy} == {}


@pytest.mark.parametrize(
    ("plug_in", "with_it"),
    [("theatre.pytest_plugin", []), ("theatre.api.inspect_hook", ["theatre.api"])],
)
def test_a_plug_in_loads_nothing_of_the_project_in_a_session_that_does_not_use_it(
    plug_in: str, with_it: list[str]
) -> None:
    assert printed_by(LOADED_BY_PLUGIN.format(plug_in)) == ["theatre", *with_it, plug_in]
