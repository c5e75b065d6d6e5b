"""The nineteen schema files, and what breaks them."""

import copy
import json
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from tests.theatre.axion.proposed import prepared
from theatre.axion.common.errors import UnknownNameError
from theatre.axion.common.schema_load import schema, violations
from theatre.axion.kernel.capability import TokenMint

NINETEEN = {
    *("common", "interface_spec", "factor_snapshot", "toy_env", "toy_entity", "toy_object"),
    *("toy_hazard", "toy_tool", "plan", "capability_scope", "capability_request"),
    *("capability_token", "trace_node", "fork_snapshot", "causal_claim", "counterfactual", "trace"),
    *("proposal", "audit_entry"),
}
FOLDER = files("theatre.axion") / "schemas"
HASH = "0" * 64


def test_the_folder_holds_the_nineteen_and_every_one_is_a_schema() -> None:
    names = {path.name for path in FOLDER.iterdir() if path.name.endswith(".json")}
    assert names == {f"{name}.json" for name in NINETEEN}
    for name in NINETEEN:
        document = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(document)
        assert document["$id"] == f"https://axio.local/schema/{name}.json"
        if name != "common":
            assert document["additionalProperties"] is False


def test_no_reference_is_left_and_none_leads_out_of_the_folder() -> None:
    for name in NINETEEN:
        assert "$ref" not in json.dumps(schema(name))


@pytest.mark.parametrize("name", ["nothing", "../errors", "ext/../proposal", "Proposal"])
def test_a_schema_that_does_not_ship_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match="expected the name of a shipped schema"):
        schema(name)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("factor_snapshot", {"factor_digest": HASH + "\n"}),
        ("factor_snapshot", {"factor_digest": HASH.replace("0", "A")}),
        ("factor_snapshot", {"dim": True}),
        ("factor_snapshot", {"dim": 0}),
        ("factor_snapshot", {"dim": float("nan")}),
        ("factor_snapshot", {"snapshot_id": ""}),
        ("factor_snapshot", {"nonce": "x"}),
    ],
)
def test_the_traps_of_the_stock_tools_are_closed(name: str, document: dict[str, object]) -> None:
    plain = {
        "snapshot_id": "a",
        "factor_digest": HASH,
        "dim": 8,
        "commitment": HASH,
        "nonce_ref": "n",
    }
    assert violations(name, plain) == []
    assert violations(name, {**plain, **document}) != []


def test_nan_passes_no_bound() -> None:
    claim = copy.deepcopy(prepared().proposal["trace"]["causal_claims"][0])
    assert violations("causal_claim", claim) == []
    for value in (float("nan"), float("inf"), True, 1.5):
        assert violations("causal_claim", {**claim, "confidence": value}) != []


def test_a_line_feed_behind_a_name_is_none_of_it() -> None:
    claim = copy.deepcopy(prepared().proposal["trace"]["causal_claims"][0])
    assert violations("causal_claim", {**claim, "var": "F:0"}) == []
    assert violations("causal_claim", {**claim, "var": "F:0\n"}) != []


def test_what_the_mint_makes_keeps_the_schema() -> None:
    request = prepared().proposal["requested_capabilities"][0]
    token = TokenMint(b"x").token(request, proposal_hash=HASH, trace_hash=HASH, now=5)
    assert violations("capability_token", token) == []
    assert violations("capability_request", request) == []
