"""A Python callable as the construct: from its version to a certificate that checks."""

import json
from pathlib import Path
from typing import cast

from tests.theatre.cli.doubler import MODULE, write_module, write_theatre
from tests.theatre.forked_echelon import forked
from theatre.engine.canonical_json import JsonObject, canonical_bytes


def test_a_callable_is_pinned_certified_and_checked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    expected_version = write_module(tmp_path)
    folder = ["--folder", str(tmp_path)]
    version = forked("construct", "version", "doubling:double", *folder, "--json", home=home)
    pin = json.loads(version.stdout)["construct_version"]
    assert pin == expected_version
    path = write_theatre(tmp_path, adapter_type="python", endpoint="doubling:double", version=pin)

    run = json.loads(forked("theatre", "run", str(path), "--json", home=home).stdout)
    assert (run["outcome"], run["scores"], run["verification_tier"]) == (
        "certified",
        {"right": 1},
        "UNVERIFIED",
    )
    assert run["caps"] == ["replays-below-50", "criterion-n-below-30:right"]
    check = forked("check", run["bundle_path"], "--json", home=home)
    assert (check.code, json.loads(check.stdout)["verdict"]) == (0, "valid, logged")

    (tmp_path / "doubling.py").write_text(MODULE.replace("2 *", "3 *"), encoding="utf-8")
    edited = forked("theatre", "run", str(path), "--json", home=home)
    assert (edited.code, json.loads(edited.stdout)["error"]["code"]) == (5, "pin-mismatch")


def test_another_environment_than_that_of_the_certificate_before_is_a_finding(
    tmp_path: Path,
) -> None:
    version = write_module(tmp_path)
    path = write_theatre(
        tmp_path, adapter_type="python", endpoint="doubling:double", version=version
    )

    def run() -> tuple[Path, JsonObject]:
        ended = forked("theatre", "run", str(path), "--json", home=tmp_path / "home")
        bundle = Path(json.loads(ended.stdout)["bundle_path"])
        return bundle / "certificate.json", json.loads((bundle / "certificate.json").read_bytes())

    first, certificate = run()
    # As if it had been certified before a library was upgraded.
    older = cast("JsonObject", certificate["environment"]) | {"environment_hash": "00" * 32}
    first.write_bytes(canonical_bytes(certificate | {"environment": older}) + b"\n")
    last, upgraded = run()
    assert upgraded["environment"] == certificate["environment"]
    others = cast("list[str]", certificate["findings"])
    assert upgraded["findings"] == sorted([*others, "environment-changed"])
    check = forked("check", str(last.parent), "--json", home=tmp_path / "home")
    assert (check.code, json.loads(check.stdout)["verdict"]) == (0, "valid, logged")
