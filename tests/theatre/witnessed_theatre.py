"""A third of the Cartograph theatre, whose construct is watched: it reports who called it."""

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.theatre.construct_door import ConstructDoor, door_of, report_source
from tests.theatre.echelon_process import CARTOGRAPH, REPOSITORY, Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.runs import recorded_lines
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.coin import Coin, Draws
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

DATASET = "ground_truth/witnessed.jsonl"
EPISODES = 80

# Each invocation id is reported before the answer leaves the construct. Of which theatre, its
# temporary folder tells: written into its source or argv, it would make another version in every
# test.
WITNESS = """
import json, os, pathlib, sys
from main import respond

for line in sys.stdin.buffer:
    request = json.loads(line)
    report(invocation_id=request["invocation_id"])
    print(json.dumps(respond(line, os.environ["ECHELON_CONSTRUCT_VERSION"])), flush=True)
AT_END
"""

REGISTRY = """
[constructs.cartograph]
argv = ["{python}", "{folder}/witness.py"]
folder = "witness"
files = ["*"]
network = true
"""


@dataclass(frozen=True)
class WitnessedTheatre:
    """A folder with template, data, construct and store; nothing in it is shared."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def template(self) -> Path:
        return self.folder / "template.json"

    @property
    def dataset(self) -> Path:
        return self.folder / DATASET

    @property
    def door(self) -> ConstructDoor:
        return door_of(self.folder)

    @cached_property
    def theatre_id(self) -> str:
        """Return the id of the one theatre in the store."""
        (folder,) = (self.home / "theatres").iterdir()
        return folder.name

    @property
    def draws(self) -> Draws:
        """Return what the coin draws that the command line has drawn."""
        receipt = parse_object((self.store_folder / "commitment_receipt.json").read_bytes())
        coin = Coin.from_line((self.store_folder / "coin").read_bytes())
        nonce = bytes.fromhex((self.store_folder / "run_nonce").read_text("ascii"))
        return Draws(coin, str(receipt["commitment_hash"]), nonce)

    @property
    def store_folder(self) -> Path:
        return self.home / "theatres" / self.theatre_id

    @property
    def bundle(self) -> Path:
        return self.store_folder / f"evidence_bundle_{self.theatre_id}"

    def calls(self) -> list[str]:
        """Return the invocation ids that reached the construct, in order of arrival."""
        return [call["invocation_id"] for call in self.door.calls]

    def recorded(self) -> list[bytes]:
        """Return the lines of the journal that count."""
        return [line for folder in self.home.glob("theatres/*") for line in recorded_lines(folder)]

    def state(self) -> str:
        """Return the state that the store's chain shows."""
        return FileTheatreStore(self.home).view(self.theatre_id).state.value

    def trail(self) -> list[JsonObject]:
        """Return the audit entries of the store."""
        data = (self.store_folder / "audit_trail.jsonl").read_bytes()
        return [parse_object(line) for line in data.splitlines()]

    def run(self, *arguments: str | Path, die_before: tuple[str, int] | None = None) -> Answer:
        """Run `echelon theatre` on the store."""
        return forked("theatre", *arguments, home=self.home, die_before=die_before)


def witnessed_theatre(folder: Path, *, at_end: str = "") -> WitnessedTheatre:
    """Write a theatre into `folder`; `at_end` is what the construct does behind its input."""
    theatre = WitnessedTheatre(folder)
    shutil.copytree(REPOSITORY / "fixtures/constructs/cartograph", folder / "witness")
    stage = 'str(pathlib.Path(os.environ["TMPDIR"]).parents[1])'
    source = report_source(stage) + WITNESS.replace("AT_END", at_end)
    (folder / "witness" / "witness.py").write_text(source, encoding="utf-8")
    registry = folder / "constructs.toml"
    registry.write_text(REGISTRY, encoding="utf-8")
    template = json.loads(CARTOGRAPH.read_bytes())
    config = template["product_theatre_config"]
    theatre.dataset.parent.mkdir()
    shipped = (REPOSITORY / "fixtures" / config["replay_data_path"]).read_bytes()
    theatre.dataset.write_bytes(b"".join(shipped.splitlines(keepends=True)[::3]))
    template["dataset_hashes"][config["replay_dataset_id"]] = sha256_hex(
        theatre.dataset.read_bytes()
    )
    config["replay_data_path"] = DATASET
    construct = ConstructRegistry.load(registry).find("cartograph")
    template["version_pins"]["constructs"]["cartograph"] = construct_version(construct)
    theatre.template.write_text(json.dumps(template), encoding="utf-8")
    return theatre
