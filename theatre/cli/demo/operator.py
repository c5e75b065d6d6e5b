"""The operator's part: which constructs the service runs, and whose certificates count."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from theatre.cli.demo.errors import DemoError
from theatre.cli.demo.place import DemoPlace
from theatre.cli.demo.service import ECHELON
from theatre.engine.canonical_json import JsonObject
from theatre.engine.commitment import content_hash
from theatre.engine.schema_registry import resource_root
from theatre.oracles.construct_registry import read_entries

_SECONDS = 180


def write_constructs(target: Path, accepted: Mapping[str, JsonObject]) -> None:
    """Write a `constructs.toml` with the shipped constructs, and with templates that count."""
    shipped = resource_root() / "fixtures" / "constructs" / "constructs.toml"
    lines = ["# Written by `echelon demo`."]
    for construct_id, entry in read_entries(shipped).items():
        members = entry.model_dump(exclude_none=True)
        if "folder" in members:
            members["folder"] = str(shipped.parent / members["folder"])
        lines += ["", f'[constructs."{construct_id}"]', *_members(members)]
    hashes = {name: content_hash(template) for name, template in accepted.items()}
    lines += ["", "[accepted_templates]", *_members(hashes), ""]
    target.write_text("\n".join(lines), encoding="utf-8")


def confirm_constructs(place: DemoPlace, construct_ids: Sequence[str], *, owner: str) -> None:
    """Confirm whose constructs these are, as an operator does it on the machine of the service."""
    ended = subprocess.run(  # noqa: S603 - our own program
        [*ECHELON, "admin", "construct", "confirm", *construct_ids, "--user", owner],
        env=place.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=_SECONDS,
    )
    if ended.returncode:
        raise DemoError(
            f"expected `echelon admin construct confirm` to succeed, got exit code "
            f"{ended.returncode}: {ended.stderr.strip()[-1000:]}"
        )


def _members(members: Mapping[str, object]) -> list[str]:
    # Texts, numbers and lists of texts are written in TOML as in JSON.
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in members.items()]
