"""A Python callable as the construct: from its version to a certificate that checks."""

from __future__ import annotations

import json
from pathlib import Path

from tests.theatre.cli.doubler import MODULE, write_module, write_theatre
from tests.theatre.echelon_process import echelon


def test_a_callable_is_pinned_certified_and_checked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    expected_version = write_module(tmp_path)
    folder = ["--folder", str(tmp_path)]
    version = echelon("construct", "version", "doubling:double", *folder, "--json", home=home)
    pin = json.loads(version.stdout)["construct_version"]
    assert pin == expected_version
    path = write_theatre(tmp_path, adapter_type="python", endpoint="doubling:double", version=pin)

    run = json.loads(echelon("theatre", "run", str(path), "--json", home=home).stdout)
    assert (run["outcome"], run["scores"], run["verification_tier"]) == (
        "certified",
        {"right": 1},
        "UNVERIFIED",
    )
    assert run["caps"] == ["replays-below-50", "criterion-n-below-30:right"]
    check = echelon("check", run["bundle_path"], "--json", home=home)
    assert (check.code, json.loads(check.stdout)["verdict"]) == (0, "consistent")

    (tmp_path / "doubling.py").write_text(MODULE.replace("2 *", "3 *"), encoding="utf-8")
    edited = echelon("theatre", "run", str(path), "--json", home=home)
    assert (edited.code, json.loads(edited.stdout)["error"]["code"]) == (5, "pin-mismatch")
