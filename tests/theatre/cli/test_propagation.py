"""The table that `show` and `run` print of a chain: where its decisions were lost."""

from pathlib import Path

import pytest

from theatre.cli.computation_reports import print_computations
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line

NOTHING: JsonObject = {"total": 0, "listed": []}


def hop(name: str, *counts: int | None) -> JsonObject:
    members = ("arrived", "lost", "unanswered", "invented", "claims", "without_effect")
    return {"hop": name, **dict(zip(members, counts, strict=True))}


def lost(hop_name: str, decision: str | None, *items: JsonValue) -> JsonObject:
    return {"episode_id": "e", "hop": hop_name, "decision": decision, "items": [*items]}


def bundle_with(folder: Path, *steps: JsonObject) -> Path:
    (folder / "resolution.json").write_bytes(
        canonical_line({"status": "completed", "steps": [*steps]})
    )
    return folder


def propagation(*found: JsonObject) -> JsonObject:
    output: JsonObject = {
        "episodes": 3,
        "unmeasurable": 0,
        "decisions": 12,
        "hops": [hop("read", 9, 3, 0, 1, None, None), hop("write", 7, 0, 2, 0, 5, 4)],
        "lost": {"total": len(found), "listed": [*found]},
        "invented": NOTHING,
        "without_effect": NOTHING,
    }
    return {
        "step_id": "follow",
        "type": "deterministic_computation",
        "status": "completed",
        "result": {"computation": "chain_propagation@1", "over": "episodes", "output": output},
    }


def test_the_table_has_a_row_for_each_hop_and_names_what_was_lost_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    red: JsonObject = {"by": "D1", "stance": "want", "term": "red"}
    found = [
        lost("read", "D1", red),
        lost("read", "D2", {**red, "by": "D2"}, "odd"),
        lost("write", "D3", {"by": "D3", "term": "loud\x1b[2J"}),
        lost("write", None, 7),
    ]
    print_computations(bundle_with(tmp_path, propagation(*found)))
    assert capsys.readouterr().out.splitlines() == [
        "",
        "decisions    follow: 12 in 3 episodes, and where in the chain they were lost",
        "hop    arrived  lost  no answer  invented  claims  without effect",
        "-----  -------  ----  ---------  --------  ------  --------------",
        "read   9        3     0          1         -       -",
        "write  7        0     2          0         5       4",
        "lost most    2 times at read, want red",
        "lost most    1 times at read, odd",
        "lost most    1 times at write, 7",
    ]


@pytest.mark.parametrize(
    "result",
    [
        {"computation": "chain_propagation@0", "over": "episodes", "output": {}},
        {"computation": "provenance_chain@1", "over": "log", "output": {}},
        {"reason": "computation-raised", "error_detail": "ValueError", "escalated_to": "sum"},
        {},
    ],
)
def test_other_steps_and_other_versions_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], result: JsonObject
) -> None:
    print_computations(bundle_with(tmp_path, {**propagation(), "result": result}))
    assert capsys.readouterr().out == ""
