"""Interactive episodes over HTTP: committed, run, killed in one, taken up, certified, checked."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import Stage
from tests.backend.test_serve import serving
from tests.backend.test_theatre_bridge import WAIT, committed
from tests.theatre.axion.axion_theatres import FIXTURES, template_of
from tests.theatre.construct_door import door_of, report_source
from tests.theatre.echelon_process import ECHELON, environment, until
from tests.theatre.thinned import thinned
from theatre.axion.harness.pair_runner import RUNNER
from theatre.engine.canonical_json import parse_object
from theatre.engine.clock import format_rfc3339
from theatre.files.published_bundle import unpack_bundle
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
class AxionStage(Stage):
    """A stage with agents and worlds."""

    episodes: int

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


FIRST_EPISODE = RUNNER.max_calls // 2
"""Questions to one agent in an episode: its steps, and one for each offer of P6."""
IN_THE_SECOND = FIRST_EPISODE + 6


def kernel_processes(parent: int) -> dict[int, str]:
    """Return the processes of the kernel below a process: id → module."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name of a program may hold anything, but no bracket behind its own.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            package, _, module = (folder / "cmdline").read_bytes().decode().rpartition(".")
            if int(fields[1]) == parent and package.endswith("theatre.axion.kernel"):
                found[int(folder.name)] = module.rstrip("\0")
    return found


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def echelon(home: Path, variables: Mapping[str, str], *arguments: str | Path) -> None:
    """Run a command, which must succeed."""
    environs = environment(home, more=variables)
    run = subprocess.run([ECHELON, *arguments], env=environs, capture_output=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def invoked_at(record: Any) -> list[str]:  # noqa: ANN401 - a document
    return [call["request"]["metadata"]["invoked_at"] for call in record["calls"]]


def separated_in(bundle: Path) -> int:
    """Return over how many episodes the separation is that stands in the aggregate."""
    aggregate: Any = parse_object((bundle / "scores" / "aggregate.json").read_bytes())
    return int(aggregate["computed"]["separate_the_pair"]["episodes"])


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_run_that_was_killed_in_an_episode_is_taken_up_and_certified_over_http(
    database: Database, tmp_path: Path
) -> None:
    stage = axion_stage(tmp_path / "stage", hold_at=IN_THE_SECOND)
    home = tmp_path / "home"
    variables = {"ECHELON_DATABASE_URL": database.application, **stage.variables}
    with serving(home, "first", **variables, ECHELON_LEASE_SECONDS="5") as first:
        ada = first.client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: stage.calls == IN_THE_SECOND, "the middle of the second episode")
        until(lambda: ada.get(path).document["progress"] == 1, "the first episode's record")
        kernel = kernel_processes(first.process.pid)
        assert sorted(kernel.values()) == ["policy_gate", "probe_engine"]
        first.process.kill()
        first.process.wait()
        killed_at = format_rfc3339(datetime.now(UTC))
    until(lambda: not any(map(is_running, kernel)), "the end of the kernel's processes")
    with serving(home, "second", **variables, ECHELON_LEASE_SECONDS="5") as second:
        again = Client(second.client.port, ada.headers)
        until(lambda: again.get(path).document["state"] == "ARCHIVED", "the end of the run")
        theatre = again.get(path).document
        archive = tmp_path / "bundle.tar.gz"
        archive.write_bytes(again.get(f"{path}/evidence-bundle").body)
        document = again.get(f"/certificates/{theatre['certificate_id']}/document").body
        export = again.get(f"{path}/replay").body
        assert second.end() == 0
    assert theatre["outcome"] == "certified"
    bundle = tmp_path / "downloaded"
    unpack_bundle(archive, bundle)
    issued = tmp_path / "certificate.json"
    issued.write_bytes(document)
    echelon(home, {}, "check", bundle, "--certificate", issued)
    # The service's own check of everything it stores plays the episodes again as well.
    echelon(home, variables, "admin", "fsck")
    files = sorted((bundle / "invocations").iterdir())
    records: list[Any] = [parse_object(file.read_bytes()) for file in files]
    assert [record["seq"] for record in records] == list(range(1, stage.episodes + 1))
    # The episode that was under way is asked from its first question again, the one before is not.
    asked_at = [invoked_at(record) for record in records]
    assert max(asked_at[0]) < killed_at < min(asked_at[1])
    assert {record["runner"] for record in records} == {RUNNER.pin}
    classes = [parse_object(line)["replay_output_class"] for line in export.splitlines()]
    assert (classes, separated_in(bundle)) == (["meets"] * stage.episodes, stage.episodes)


def test_a_run_that_is_cancelled_in_an_episode_is_void(database: Database, tmp_path: Path) -> None:
    stage = axion_stage(tmp_path / "stage", hold_at=IN_THE_SECOND)
    settings = settings_for(database, tmp_path / "home", drain_seconds=0.2, **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: stage.calls == IN_THE_SECOND, "the middle of the second episode")
        # The agent is never let through: it is waited for so long and no longer.
        cancelled = ada.post(f"{path}/cancel", b"", headers=WAIT).document
        assert (cancelled["state"], cancelled["outcome"]) == ("RESOLVED", "void")
        assert cancelled["run"]["status"] == "cancelled"
    assert database.rows("SELECT id FROM theatre_certificates") == []
