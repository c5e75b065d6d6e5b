"""The pair of the pseudo-axion audit for runs over HTTP, with an honest agent that can be held.

The honest agent never gives its answer number `hold_at`, in the middle of an episode. Whoever asks
it anew gets every later answer.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.theatre.axion.axion_theatres import FIXTURES, template_of
from tests.theatre.construct_door import ConstructDoor, door_of, report_source
from tests.theatre.thinned import thinned
from theatre.oracles.construct_registry import ConstructRegistry, construct_version, program_of

HELD = """
import honest


def act(input_data):
    report()
    return honest.act(input_data)
"""
REGISTRY = """
[constructs."axion.{agent}"]
argv = [
  "{{python}}", "-B", "-m", "theatre.construct_kit",
  "--stdio", "--folder", "{{folder}}", "{module}:act",
]
folder = "agents"
files = ["*.py"]
network = true
"""
MODULES = {"honest": "held", "pseudo": "pseudo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AxionStage:
    """Where the service finds agents and worlds; the template names them."""

    folder: Path
    template: dict[str, Any]
    episodes: int
    door: ConstructDoor

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the service."""
        return {"constructs": self.folder / "constructs.toml", "dataset_roots": (self.folder,)}

    @property
    def variables(self) -> dict[str, str]:
        """The same as environment variables."""
        return {
            "ECHELON_CONSTRUCTS": str(self.folder / "constructs.toml"),
            "ECHELON_DATASET_ROOTS": str(self.folder),
        }

    @property
    def calls(self) -> int:
        """How often the honest agent was asked."""
        return len(self.door.calls)


def axion_stage(folder: Path, *, hold_at: int) -> AxionStage:
    """Write agents, registry and two worlds; return who commits to them."""
    template: dict[str, Any] = {**thinned(template_of("pair"), folder, step=26)}
    door = door_of(folder)
    door.held_call = hold_at
    shutil.copytree(FIXTURES / "constructs" / "axion", folder / "agents")
    (folder / "agents" / "held.py").write_text(
        report_source(repr(str(folder))) + HELD, encoding="utf-8"
    )
    registry = folder / "constructs.toml"
    registry.write_text(
        "".join(REGISTRY.format(agent=agent, module=one) for agent, one in MODULES.items())
    )
    found = ConstructRegistry.load(registry)
    pins = {
        name: construct_version(program_of(found.find_registered(name)))
        for name in (f"axion.{agent}" for agent in MODULES)
    }
    template["version_pins"] = {**template["version_pins"], "constructs": pins}
    template["execution_policy"] = {**template["execution_policy"], "timeout_seconds": 60}
    (step, *others) = template["resolution_programme"]
    template["resolution_programme"] = [{**step, "timeout_seconds": 60}, *others]
    return AxionStage(folder=folder, template=template, episodes=2, door=door)
