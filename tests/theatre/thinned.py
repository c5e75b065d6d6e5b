"""Shipped theatres with fewer episodes, so that a run or a check is quick."""

from pathlib import Path
from typing import cast

from tests.theatre.runs import with_changes
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object, sha256_hex

FIXTURES = Path(__file__).parents[2] / "fixtures"


def thinned(template: JsonObject, folder: Path, *, step: int) -> JsonObject:
    """Write the datasets of `template` with every `step`th episode; return who commits to them."""
    config = cast("dict[str, str]", template["product_theatre_config"])
    episodes = (FIXTURES / config["replay_data_path"]).read_bytes().splitlines(keepends=True)
    kept = episodes[::step]
    ids = {parse_object(line)["episode_id"] for line in kept}
    changes: dict[str, JsonValue] = {
        f"/dataset_hashes/{config['replay_dataset_id']}": sha256_hex(b"".join(kept))
    }
    (folder / "ground_truth").mkdir(parents=True)
    (folder / config["replay_data_path"]).write_bytes(b"".join(kept))
    if "gold_label_set" in config:
        gold = (FIXTURES / config["gold_label_set"]).read_bytes().splitlines(keepends=True)
        labels = b"".join(line for line in gold if parse_object(line)["episode_id"] in ids)
        (folder / config["gold_label_set"]).write_bytes(labels)
        name = config.get("gold_label_dataset_id", "gold_labels")
        changes[f"/dataset_hashes/{name}"] = sha256_hex(labels)
    others = cast("dict[str, str]", config.get("dataset_paths", {}))
    for path in others.values():
        (folder / path).write_bytes((FIXTURES / path).read_bytes())
    return with_changes(template, changes)
