"""`echelon verify --qualification`: what shows that its judge can be relied on."""

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.test_judged_verification import Judged, judged
from tests.theatre.forged_bundle import check, document, failed_ids, load
from tests.theatre.qualified_runs import qualification, signed
from tests.theatre.verification.git_history import Commit, repository
from tests.theatre.verification.messages_server import MessagesService, reading
from tests.theatre.verification.test_judge_controls import truths
from theatre.cli.exits import ExitCode
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject
from theatre.verification.change_facts import change_facts
from theatre.verification.errors import NoVerificationError
from theatre.verification.judge.scorer import SCORER, committed_judge
from theatre.verification.lexical import is_supported
from theatre.verification.provenance import require_built_in

ALONE = ("--weights", "precision=1,recall=0,reply_accuracy=0")
ENOUGH = 50
"""Changes, with two claims about each: a control item of either sort comes with them."""

SAYS_TWO = """
import re

def summarise(input_data):
    added = re.findall(r"^\\+def (\\w+)", input_data["record"]["diff_content"], re.M)
    claims = [f"Adds `{name}` to a.py." for name in added[:2]]
    return {"summary": " ".join(claims), "key_claims": claims, "follow_up_response": "1"}
"""


def wide_history(folder: Path) -> None:
    """Make changes of which each defines more than the oracle says."""
    repository(
        folder,
        [
            Commit(message=b"Change %d" % at, files={b"a.py": b"".join(
                b"def f%d_%d():\n    return 1\n" % (at, place) for place in range(6)
            )})
            for at in range(ENOUGH)
        ],
    )  # fmt: skip


def knowing(data: dict[str, Any]) -> dict[str, Any]:
    """Judge claims by the facts of the diff, and those of the labelled set by heart."""
    if "claims" not in data:
        return reading(data)
    known, facts = truths(), change_facts(data["diff"])
    return {
        "verdicts": [
            {"claim": one["claim"],
             "verdict": "supported"
             if known.get((one["text"], data["diff"]), is_supported(one["text"], facts))
             else "not_shown"}
            for one in data["claims"]
        ]
    }  # fmt: skip


@cache
def of_the_judge(model: str = "claude-sonnet-4-6", **rule: Any) -> JsonObject:  # noqa: ANN401
    """Return a qualification of the judge of claims, as `echelon verify` commits it."""
    judge = committed_judge(model, temperature=0, repeats=1)
    params: JsonObject = {
        "measure": "precision", "field": "key_claims", "record": "record", "judge": judge,
    }  # fmt: skip
    return qualification(
        scorer=SCORER.name, version=SCORER.version, kind="judged", params=params, **rule
    )


def relying(
    folder: Path, made: JsonObject, *options: str, signer: str = "issuer", **oracle: str
) -> Judged:
    """Return a verification that relies on a qualification; `issuer` is the user's own folder."""
    file = folder / "judge.sigstore.json"
    file.write_bytes(signed(made, folder / signer))
    given = ("--qualification", str(file), "--output", str(folder / "kept"), *options)
    return judged(folder, MessagesService(knowing), *given, **oracle)


def test_a_judge_that_is_qualified_carries_the_tier_of_precision_alone(tmp_path: Path) -> None:
    wide_history(tmp_path / "repo")
    (tmp_path / "oracle.py").write_text(SAYS_TWO, encoding="utf-8")
    run = relying(tmp_path, of_the_judge(), *ALONE, construct="oracle:summarise")
    assert (run.answer.code, run.report["check"]["verdict"]) == (0, "valid, logged")
    certificate: Any = document(load(run.bundle), "certificate.json")
    assert certificate["verification_tier"] == "BACKTESTED"
    assert certificate["qualification"]["precision"]["qualified"] is True
    assert {f"unweighted-judge:{one}" for one in ("recall", "reply_accuracy")} < {
        *certificate["findings"]
    }
    assert "UNVERIFIED" not in run.answer.stderr
    short = json.loads((tmp_path / "kept" / "verification_certificate.json").read_bytes())
    assert (short["verification_tier"], short["weights"]["recall"]) == ("BACKTESTED", 0)
    assert failed_ids(check(run.bundle)) == set()
    assert verify(run.bundle, now=datetime.now(UTC)).word == "consistent"


def test_what_has_no_qualification_keeps_the_cap_and_the_run_says_so_before(tmp_path: Path) -> None:
    run = relying(tmp_path, of_the_judge())
    certificate: Any = document(load(run.bundle), "certificate.json")
    # Six changes bring fewer than thirty control items, so nothing bears the qualification out.
    assert {cap for cap in certificate["caps"] if "measure" in cap} == {
        f"measure-unqualified:{one}" for one in ("precision", "recall", "reply_accuracy")
    }
    note = "this will read UNVERIFIED for recall (llm_judge is judged), reply_accuracy (llm_judge"
    assert note in run.answer.stderr
    assert "a labelled set holds single claims" in run.answer.stderr
    template: dict[str, Any] = run.template
    require_built_in(template)
    template["scoring"]["qualifications"]["recall"] = template["scoring"]["qualifications"].pop(
        "precision"
    )
    with pytest.raises(NoVerificationError, match="got other members"):
        require_built_in(template)


def test_the_qualification_of_another_judge_is_refused_before_a_change_is_shown(
    tmp_path: Path,
) -> None:
    run = relying(tmp_path, of_the_judge("another"))
    told = " ".join((run.answer.stdout + run.answer.stderr).split())
    assert (run.answer.code, len(run.service.requests)) == (ExitCode.INVALID, 1)
    assert "its qualification is of another judge" in told
