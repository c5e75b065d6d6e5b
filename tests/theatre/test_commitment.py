"""The commitment: recomputed here with `hashlib` and `rfc8785` alone, never with the engine."""

import copy
import dataclasses
import hashlib
import json
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest
import rfc8785

from tests.theatre.runs import COIN
from tests.theatre.template_leaves import another, leaves, with_leaf
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import CanonicalisationError, ClockError, CommitmentError

TEMPLATES = Path(__file__).parents[2] / "fixtures" / "templates"
THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

SMALL: dict[str, Any] = {
    "theatre_id": "product_small_v1",
    "version_pins": {"constructs": {"pilot": "c0ffee0"}, "scorer_version": "exact_match@1"},
    "dataset_hashes": {"truth": "ab" * 32},
    "scoring": {"holdout_split": 0.2, "tie_breakers": []},
    "note": None,
}

SMALL_CANONICAL = (
    '{"dataset_hashes":{"truth":"' + "ab" * 32 + '"},'
    '"template":{"dataset_hashes":{"truth":"' + "ab" * 32 + '"},"note":null,'
    '"scoring":{"holdout_split":0.2,"tie_breakers":[]},"theatre_id":"product_small_v1",'
    '"version_pins":{"constructs":{"pilot":"c0ffee0"},"scorer_version":"exact_match@1"}},'
    '"version_pins":{"constructs":{"pilot":"c0ffee0"},"scorer_version":"exact_match@1"}}'
)


def recomputed(template: dict[str, Any]) -> str:
    """Hash as a stranger would, with the two libraries that the contract names."""
    composite = {
        "template": template,
        "version_pins": template.get("version_pins", {}),
        "dataset_hashes": template.get("dataset_hashes", {}),
    }
    return hashlib.sha256(rfc8785.dumps(composite)).hexdigest()


def cartograph() -> dict[str, Any]:
    template: dict[str, Any] = json.loads((TEMPLATES / "product_cartograph_v1.json").read_bytes())
    return template


def committed(template: dict[str, Any], changes: dict[str, Any] | None = None) -> CommitmentReceipt:
    receipt = CommitmentProtocol.commit(
        THEATRE_ID,
        template,
        coin=COIN,
        scorer_pins={"exact_match": "1"},
        scorer_kinds={"exact_match": "exact"},
        committed_at=NOON,
    )
    return dataclasses.replace(receipt, **changes or {})


def test_the_hash_of_a_small_template_is_the_sha256_of_its_canonical_composite() -> None:
    assert CommitmentProtocol.hash_template(SMALL) == (
        hashlib.sha256(SMALL_CANONICAL.encode()).hexdigest()
    )
    assert CommitmentProtocol.hash_template(SMALL) == recomputed(SMALL)
    assert CommitmentProtocol.hash_template(SMALL) == (
        "73a8580975a3a71b3a2af906488b302df080ea7c61324c1ca58a6fb71ef1cfe9"
    )


@pytest.mark.reproducibility
def test_the_shipped_cartograph_template_has_the_published_commitment() -> None:
    published = (TEMPLATES / "product_cartograph_v1.commitment.txt").read_bytes()
    template = cartograph()
    assert published == f"{recomputed(template)}\n".encode("ascii")
    strictly_parsed = parse_object((TEMPLATES / "product_cartograph_v1.json").read_bytes())
    assert f"{CommitmentProtocol.hash_template(strictly_parsed)}\n".encode("ascii") == published


def test_a_change_or_removal_of_any_committed_leaf_gives_another_hash() -> None:
    template = cartograph()
    hashes = [CommitmentProtocol.hash_template(template)]
    paths = list(leaves(template))
    assert len(paths) > 50
    for path in paths:
        changed = with_leaf(template, path, lambda o, k: operator.setitem(o, k, another(o[k])))
        removed = with_leaf(template, path, operator.delitem)
        hashes += [CommitmentProtocol.hash_template(changed), recomputed(removed)]
        assert CommitmentProtocol.hash_template(removed) == hashes[-1]
    assert len(set(hashes)) == 1 + 2 * len(paths)


def test_an_added_member_and_the_order_of_an_array_count_but_the_order_of_members_does_not() -> (
    None
):
    template = cartograph()
    plain = CommitmentProtocol.hash_template(template)
    assert CommitmentProtocol.hash_template(template | {"added": {}}) != plain
    turned = copy.deepcopy(template)
    turned["criteria"]["criteria_ids"].reverse()
    assert CommitmentProtocol.hash_template(turned) != plain
    assert CommitmentProtocol.hash_template(dict(reversed(template.items()))) == plain


def test_a_null_is_kept_apart_from_an_absent_member() -> None:
    without = {key: value for key, value in SMALL.items() if key != "note"}
    assert CommitmentProtocol.hash_template(without) == recomputed(without)
    assert CommitmentProtocol.hash_template(without) != CommitmentProtocol.hash_template(SMALL)
    receipt = committed(SMALL)
    assert receipt.template_snapshot["note"] is None
    assert b'"note":null' in canonical_bytes(receipt.as_document())


def test_a_template_without_pins_and_hashes_is_committed_with_empty_objects() -> None:
    market: JsonObject = {
        "theatre_id": "geopolitical_straits_v1",
        "execution_path": "market",
        "fork_definitions": [{"options": [{}, {}]}],
        "market_theatre_config": {"lmsr_config": {"liquidity_b": 200}},
    }
    receipt = CommitmentProtocol.commit(
        THEATRE_ID, market, coin=COIN, scorer_pins={}, scorer_kinds={}, committed_at=NOON
    )
    composite = (
        '{"dataset_hashes":{},"template":{"execution_path":"market",'
        '"fork_definitions":[{"options":[{},{}]}],'
        '"market_theatre_config":{"lmsr_config":{"liquidity_b":200}},'
        '"theatre_id":"geopolitical_straits_v1"},"version_pins":{}}'
    )
    assert receipt.as_document() == {
        "theatre_id": THEATRE_ID,
        "commitment_hash": hashlib.sha256(composite.encode()).hexdigest(),
        "coin_sha256": COIN.sha256,
        "reproduces": None,
        "template_snapshot": market,
        "version_pins": {},
        "dataset_hashes": {},
        "scorer_pins": {},
        "scorer_kinds": {},
        "escrowed_capital": 138.629436112,
        "environment": None,
        "isolation": None,
        "canonicalisation": "RFC8785",
        "committed_at": "2026-11-21T12:00:00.000000Z",
    }
    CommitmentProtocol.verify(receipt)


def test_a_receipt_holds_all_that_was_committed_and_the_time_in_utc() -> None:
    later_zone = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    receipt = CommitmentProtocol.commit(
        THEATRE_ID,
        SMALL,
        coin=COIN,
        scorer_pins={"exact_match": "1"},
        scorer_kinds={"exact_match": "exact"},
        committed_at=later_zone,
    )
    assert receipt.as_document() == {
        "theatre_id": THEATRE_ID,
        "commitment_hash": recomputed(SMALL),
        "coin_sha256": COIN.sha256,
        "reproduces": None,
        "template_snapshot": SMALL,
        "version_pins": SMALL["version_pins"],
        "dataset_hashes": SMALL["dataset_hashes"],
        "scorer_pins": {"exact_match": "1"},
        "scorer_kinds": {"exact_match": "exact"},
        "escrowed_capital": None,
        "environment": None,
        "isolation": None,
        "canonicalisation": "RFC8785",
        "committed_at": "2026-11-21T12:00:00.000000Z",
    }


def test_a_later_change_of_what_the_caller_passed_in_changes_nothing() -> None:
    template, pins = copy.deepcopy(SMALL), {"exact_match": "1"}
    receipt = CommitmentProtocol.commit(
        THEATRE_ID,
        template,
        coin=COIN,
        scorer_pins=pins,
        scorer_kinds={"exact_match": "exact"},
        committed_at=NOON,
    )
    before = canonical_bytes(receipt.as_document())
    template["version_pins"]["constructs"]["pilot"] = "deadbee"
    template["scoring"]["tie_breakers"].append("first")
    template["dataset_hashes"].clear()
    template["added"] = True
    pins["exact_match"] = "2"
    assert canonical_bytes(receipt.as_document()) == before
    CommitmentProtocol.verify(receipt)


def pins_in(receipt: CommitmentReceipt) -> JsonObject:
    pins = cast("JsonObject", receipt.template_snapshot["version_pins"])
    return cast("JsonObject", pins["constructs"])


def tie_breakers_in(receipt: CommitmentReceipt) -> list[JsonValue]:
    scoring = cast("JsonObject", receipt.template_snapshot["scoring"])
    return cast("list[JsonValue]", scoring["tie_breakers"])


MUTATIONS: dict[str, Callable[[CommitmentReceipt], object]] = {
    "snapshot member": lambda r: operator.setitem(r.template_snapshot, "note", 1),
    "nested pin": lambda r: operator.setitem(pins_in(r), "pilot", "f"),
    "nested array": lambda r: tie_breakers_in(r).append("first"),
    "removal": lambda r: operator.delitem(r.template_snapshot, "scoring"),
    "version pins": lambda r: r.version_pins.update(scorer_version="other@9"),
    "dataset hashes": lambda r: r.dataset_hashes.pop("truth"),
    "scorer pins": lambda r: r.scorer_pins.clear(),
    "scorer kinds": lambda r: r.scorer_kinds.update(exact_match="judged"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_nothing_inside_a_receipt_can_be_changed(name: str) -> None:
    receipt = committed(SMALL)
    before = canonical_bytes(receipt.as_document())
    with pytest.raises(TypeError, match="a committed document cannot be changed"):
        MUTATIONS[name](receipt)
    assert canonical_bytes(receipt.as_document()) == before


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(CommitmentReceipt)])
def test_no_attribute_of_a_receipt_can_be_set_or_deleted(field: str) -> None:
    receipt = committed(SMALL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(receipt, field, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(receipt, field)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"version_pins": {"constructs": {"pilot": "deadbee"}, "scorer_version": "e"}},
            "expected the receipt's version_pins to equal the template's, got other ones",
        ),
        (
            {"version_pins": {}},
            "expected the receipt's version_pins to equal the template's, got other ones",
        ),
        (
            {"dataset_hashes": {"truth": "cd" * 32}},
            "expected the receipt's dataset_hashes to equal the template's, got other ones",
        ),
        (
            {"commitment_hash": "0" * 64},
            f"expected commitment {'0' * 64}, got {recomputed(SMALL)} from its parts",
        ),
        (
            {"commitment_hash": recomputed(SMALL).upper()},
            (
                f"expected commitment {recomputed(SMALL).upper()}, got {recomputed(SMALL)} "
                "from its parts"
            ),
        ),
        (
            {"template_snapshot": SMALL | {"note": "another"}},
            (
                f"expected commitment {recomputed(SMALL)}, got "
                f"{recomputed(SMALL | {'note': 'another'})} from its parts"
            ),
        ),
        ({"canonicalisation": "json.dumps"}, "expected a receipt under RFC8785, got json.dumps"),
    ],
)
def test_verification_refuses_a_receipt_whose_parts_disagree(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CommitmentError) as caught:
        CommitmentProtocol.verify(committed(SMALL, changes))
    assert (str(caught.value), caught.value.code) == (message, "commitment-refused")


def test_verification_compares_canonical_values_so_1_and_1_0_are_the_same_number() -> None:
    template = SMALL | {"dataset_hashes": {"truth": 1}}
    CommitmentProtocol.verify(committed(template, {"dataset_hashes": {"truth": 1.0}}))
    with pytest.raises(CommitmentError, match="dataset_hashes"):
        CommitmentProtocol.verify(committed(template, {"dataset_hashes": {"truth": True}}))


@pytest.mark.parametrize("template", [SMALL, cartograph()], ids=["small", "cartograph"])
def test_a_receipt_survives_the_way_through_its_file(template: dict[str, Any]) -> None:
    receipt = committed(template)
    stored = canonical_bytes(receipt.as_document())
    read_back = CommitmentReceipt.from_document(parse_object(stored))
    assert read_back == receipt
    assert canonical_bytes(read_back.as_document()) == stored
    with pytest.raises(TypeError, match="cannot be changed"):
        read_back.template_snapshot["scoring"] = {}


def test_a_receipt_that_was_changed_on_disk_is_refused() -> None:
    document = parse_object(canonical_bytes(committed(SMALL).as_document()))
    changed = document | {"template_snapshot": SMALL | {"note": 1}}
    with pytest.raises(CommitmentError, match=f"expected commitment {recomputed(SMALL)}, got "):
        CommitmentReceipt.from_document(changed)


@pytest.mark.parametrize("member", [field.name for field in dataclasses.fields(CommitmentReceipt)])
def test_a_receipt_file_with_a_missing_or_mistyped_member_is_refused(member: str) -> None:
    document = parse_object(canonical_bytes(committed(SMALL).as_document()))
    without = {name: value for name, value in document.items() if name != member}
    for broken in (without, document | {member: [1]}):
        with pytest.raises(CommitmentError, match=rf"got it wrong in {member}$"):
            CommitmentReceipt.from_document(broken)


def test_a_receipt_file_with_an_unknown_member_is_refused() -> None:
    document = committed(SMALL).as_document() | {"signature": "none"}
    with pytest.raises(CommitmentError, match=r"got it wrong in signature$"):
        CommitmentReceipt.from_document(document)


def test_a_template_without_a_canonical_form_cannot_be_committed() -> None:
    with pytest.raises(CanonicalisationError):
        committed(SMALL | {"note": float("nan")})


def test_a_commitment_needs_a_time_that_names_a_moment() -> None:
    with pytest.raises(ClockError, match="expected a timezone-aware time"):
        CommitmentProtocol.commit(
            THEATRE_ID,
            SMALL,
            coin=COIN,
            scorer_pins={},
            scorer_kinds={},
            committed_at=NOON.replace(tzinfo=None),
        )
