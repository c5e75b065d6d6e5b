"""A construct of the operator that adds numbers, and a theatre about it: for runs over HTTP.

An episode with `do: "gate"` is answered once somebody has written into that named pipe of the
stage, and so on for the second gate; one with `do: "kill"` kills whoever runs the construct. One
with `do: "kill the doomed"` waits at the second gate and then kills whoever runs a theatre that the
file `doomed` names; in all others it is answered behind the first gate.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.theatre.conftest import CONSTRUCT, CONSTRUCT_ID, TEMPLATE, episode
from theatre.engine.canonical_json import JsonObject, canonical_line, sha256_hex
from theatre.oracles.construct_registry import ConstructRegistry, construct_version, program_of

GATED = CONSTRUCT.replace("import json", "import json\nimport time", 1).replace(
    '    if do == "garbage":',
    """    number = request["input_data"]["numbers"][0]
    with open("{calls}", "a") as calls:
        calls.write(f"{request['theatre_id']} {number} {time.time()}\\n")
    time.sleep({seconds})
    if do in ("gate", "second gate"):
        open("{folder}/" + do).read()
    is_doomed = False
    if do == "kill the doomed":
        is_doomed = request["theatre_id"] in open("{folder}/doomed").read()
        open("{folder}/" + ("second gate" if is_doomed else "gate")).read()
    if do == "kill" or is_doomed:
        os.kill(os.getppid(), signal.SIGKILL)
    if do == "garbage":""",
)
REGISTRY = """
[constructs.{name}]
argv = ["{{python}}", "-B", "{{folder}}/main.py"]
folder = "construct"
files = ["*.py"]
author = "Sum Author"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsStage:
    """Where the service finds construct and data; the template names them."""

    folder: Path
    template: JsonObject

    @property
    def calls(self) -> list[tuple[str, int, float]]:
        """Every call that came to the construct: theatre, number of the episode, Unix time."""
        written = self.folder / "calls"
        lines = written.read_text(encoding="utf-8").splitlines() if written.exists() else []
        parts = [line.split(" ") for line in lines]
        return [(theatre, int(number), float(at)) for theatre, number, at in parts]

    @property
    def gate(self) -> Path:
        return self.folder / "gate"

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

    def doom(self, theatre_id: str) -> None:
        """Have a theatre kill whoever runs it."""
        (self.folder / "doomed").write_text(theatre_id)

    def let_through(self, name: str = "gate") -> None:
        """Let an episode through if one stands before the gate."""
        with contextlib.suppress(OSError):
            gate = os.open(self.folder / name, os.O_WRONLY | os.O_NONBLOCK)
            os.write(gate, b"go")
            os.close(gate)


def sums_stage(
    folder: Path,
    episodes: Sequence[JsonObject],
    *,
    template_changes: Mapping[str, Any] | None = None,
    seconds: float = 0,
) -> SumsStage:
    """Write construct, registry and data of a theatre without gold labels.

    The construct takes at least `seconds` for an answer.
    """
    program = folder / "construct"
    program.mkdir(parents=True)
    for gate in ("gate", "second gate"):
        os.mkfifo(folder / gate)
    source = GATED
    for name, value in (("folder", folder), ("calls", folder / "calls"), ("seconds", seconds)):
        source = source.replace(f"{{{name}}}", str(value))
    (program / "main.py").write_text(source, encoding="utf-8")
    registry = folder / "constructs.toml"
    registry.write_text(REGISTRY.format(name=CONSTRUCT_ID))
    raw = b"".join(map(canonical_line, episodes))
    (folder / "sums.jsonl").write_bytes(raw)
    template = json.loads(json.dumps(TEMPLATE))
    template["criteria"]["criteria_ids"] = ["addition"]
    template["criteria"]["weights"] = {"addition": 1}
    scorers = template["scoring"]["criteria_scorers"]
    template["scoring"]["criteria_scorers"] = {"addition": scorers["addition"]}
    template["scorer_pins"] = {"exact_match": "1"}
    template["execution_policy"]["timeout_seconds"] = 60
    del template["product_theatre_config"]["gold_label_set"]
    template["dataset_hashes"]["sums"] = sha256_hex(raw)
    construct = program_of(ConstructRegistry.load(registry).find_registered(CONSTRUCT_ID))
    template["version_pins"]["constructs"][CONSTRUCT_ID] = construct_version(construct)
    return SumsStage(folder=folder, template={**template, **(template_changes or {})})


def sums(count: int, *, gate_at: int | None = None, **special: int) -> list[JsonObject]:
    """Return `count` episodes; the one with the number `gate_at` waits for the gate.

    Others are named by what they do: `kill=4`.
    """
    asked = {number: do for do, number in special.items()}
    if gate_at is not None:
        asked[gate_at] = "gate"
    return [episode(number, [number, 1], asked.get(number)) for number in range(1, count + 1)]
