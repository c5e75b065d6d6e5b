"""Baselines: another construct through the same measurement, for comparison."""

from __future__ import annotations

from typing import Any

from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.oracles.endpoints import REGISTERED


def replace_construct(template: JsonObject, construct_id: str, *, version: str) -> JsonObject:
    """Return the template of one construct for a registered other one; all else stays.

    What changes is the pin, and the three places that name the construct. The commitment hash
    changes with them, and so does the draw of the holdout.
    """
    changed: Any = parse_object(canonical_bytes(template))
    changed["version_pins"]["constructs"] = {construct_id: version}
    for step in changed["resolution_programme"]:
        if "construct_id" in step:
            step["construct_id"] = construct_id
    config = changed["product_theatre_config"]
    config["construct_under_test"] = construct_id
    config["adapter_endpoint"] = f"{REGISTERED}{construct_id}"
    return parse_object(canonical_bytes(changed))
