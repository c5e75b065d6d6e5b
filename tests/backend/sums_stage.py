"""A construct of the operator that adds numbers, and a theatre about it: for runs over HTTP.

An episode with `do: "gate"` is answered once the test has let it through, and so on for the second
gate; one with `do: "kill"` kills whoever runs the construct. One with `do: "kill the doomed"` waits
at the second gate and then kills whoever runs a theatre that is doomed; in all others it is
answered behind the first gate.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.theatre.conftest import CONSTRUCT, CONSTRUCT_ID, TEMPLATE, episode
from tests.theatre.construct_door import ConstructDoor, door_of, report_source
from theatre.engine.canonical_json import JsonObject, canonical_line, sha256_hex
from theatre.oracles.construct_registry import ConstructRegistry, construct_version, program_of

REPORTING = CONSTRUCT.replace(
    '    if do == "garbage":',
    """    report(
        theatre=request["theatre_id"], number=request["input_data"]["numbers"][0], do=do
    )
    time.sleep({seconds})
    if do == "garbage":""",
)
REGISTRY = """
[constructs.{key}]
argv = ["{{python}}", "-B", "{{folder}}/main.py"]
folder = "construct"
files = ["*.py"]
author = "Sum Author"
network = true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where the service finds construct and data; the template names them."""

    folder: Path
    template: dict[str, Any]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsStage(Stage):
    """A stage whose construct adds numbers."""

    @property
    def calls(self) -> list[tuple[str, int, float]]:
        """Every call that came to the construct: theatre, number of the episode, Unix time."""
        return [(call["theatre"], call["number"], call["at"]) for call in self.door.calls]

    def doom(self, theatre_id: str) -> None:
        """Have a theatre kill whoever runs it."""
        self.door.doomed.add(theatre_id)

    def let_through(self, name: str = "gate") -> None:
        """Let an episode through if one stands before the gate."""
        self.door.let_through(name)


def sums_stage(
    folder: Path,
    episodes: Sequence[JsonObject],
    *,
    template_changes: Mapping[str, Any] | None = None,
    construct_id: str = CONSTRUCT_ID,
    seconds: float = 0,
) -> SumsStage:
    """Write construct, registry and data of a theatre without gold labels.

    The construct takes at least `seconds` for an answer.
    """
    program = folder / "construct"
    program.mkdir(parents=True)
    source = report_source(repr(str(folder))) + REPORTING.replace("{seconds}", str(seconds))
    (program / "main.py").write_text(source, encoding="utf-8")
    registry = folder / "constructs.toml"
    key = json.dumps(construct_id)
    registry.write_text(REGISTRY.format(key=key))
    raw = b"".join(map(canonical_line, episodes))
    (folder / "sums.jsonl").write_bytes(raw)
    template = json.loads(json.dumps(TEMPLATE).replace(json.dumps(CONSTRUCT_ID), key))
    template["criteria"]["criteria_ids"] = ["addition"]
    template["criteria"]["weights"] = {"addition": 1}
    scorers = template["scoring"]["criteria_scorers"]
    template["scoring"]["criteria_scorers"] = {"addition": scorers["addition"]}
    template["scorer_pins"] = {"exact_match": "1"}
    template["execution_policy"]["timeout_seconds"] = 60
    del template["product_theatre_config"]["gold_label_set"]
    template["product_theatre_config"]["replay_dataset_id"] = "sums"
    template["dataset_hashes"]["sums"] = sha256_hex(raw)
    construct = program_of(ConstructRegistry.load(registry).find_registered(construct_id))
    template["version_pins"]["constructs"][construct_id] = construct_version(construct)
    changed = {**template, **(template_changes or {})}
    return SumsStage(folder=folder, template=changed, door=door_of(folder))


def sums(count: int, *, gate_at: int | None = None, **special: int) -> list[JsonObject]:
    """Return `count` episodes; the one with the number `gate_at` waits for the gate.

    Others are named by what they do: `kill=4`.
    """
    asked = {number: do for do, number in special.items()}
    if gate_at is not None:
        asked[gate_at] = "gate"
    return [episode(number, [number, 1], asked.get(number)) for number in range(1, count + 1)]
