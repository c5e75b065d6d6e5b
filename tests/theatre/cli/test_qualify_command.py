"""`echelon qualify`: a measure against labelled claims, signed, and checked again by anyone."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.theatre.oracles.loopback import serving
from tests.theatre.verification.messages_server import KEY, MessagesService, reading
from theatre.cli import cli
from theatre.cli.exits import ExitCode, exit_code_of
from theatre.engine.canonical_json import canonical_line, canonical_sha256, sha256_hex
from theatre.engine.errors import TheatreError
from theatre.engine.scoring.qualification import counted_again
from theatre.verification.judge.questions import RUBRICS

DIFF = (
    "diff --git a/{0}.py b/{0}.py\n--- a/{0}.py\n+++ b/{0}.py\n"
    "@@ -1 +1 @@\n-old = 1\n+{0}_new = 1\n"
)
NAMES = ("alpha", "beta", "gamma", "delta")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "trust"))
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A dozen lines: four changes, and a true claim and a lie about each."""
    folder = tmp_path / "labelled"
    folder.mkdir()
    changes = [
        {"change_id": name, "commit": "0" * 40, "subject": None, "diff": DIFF.format(name)}
        for name in NAMES
    ]
    claims = [
        claim
        for name in NAMES
        for claim in (
            {"claim_id": f"{name}-1", "change_id": name, "claim": f"Adds `{name}_new`.",
             "verdict": "supported", "kind": "plain"},
            {"claim_id": f"{name}-2", "change_id": name, "claim": f"Removes `{name}_new`.",
             "verdict": "contradicted", "kind": "plain_lie"},
        )
    ]  # fmt: skip
    for file, lines in (("changes_a", changes), ("claims_a", claims)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{file}.jsonl").write_text(text, encoding="utf-8")
    return folder


def echelon(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def checked(path: Path, *options: object) -> dict[str, str]:
    ended = echelon("check", path, "--json", *options)
    return {line["id"]: line["status"] for line in json.loads(ended.stdout)["checks"]}


def qualified(labelled: Path, out: Path, measure: str = "lexical_precision", *options: str) -> Any:  # noqa: ANN401
    ended = echelon("qualify", measure, "--labelled", labelled, "-o", out, "--json", *options)
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_a_measure_of_words_is_measured_signed_and_measured_again(
    labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "qualification.json"
    told = qualified(labelled, out)
    document = json.loads(out.read_bytes())
    assert told["sha256"] == canonical_sha256(document)
    assert document["measure"]["threshold"] == 0.5
    assert document["sensitivity"]["value"] == document["specificity"]["value"] == 1
    # Eight right answers about four changes show little.
    assert document["qualified"] is False
    assert document["balanced_accuracy"]["low"] < 0.75
    assert checked(out, "--labelled", labelled) == {
        "figures": "pass", "labelled-set": "pass", "measured": "pass", "signature": "pass",
    }  # fmt: skip
    assert checked(out)["labelled-set"] == "unanchored"
    shown = echelon("qualify", "lexical_precision", "--labelled", labelled, "-o", out)
    assert "qualified           no: the lower bound is not 0.75" in shown.output


def without_a_row(it: Any) -> None:  # noqa: ANN401
    del it["rows"][1]


EDITS: list[tuple[Callable[[Any], object], str]] = [
    (lambda it: it.update(qualified=True), "figures"),
    (lambda it: it["balanced_accuracy"].update(low=0.9), "figures"),
    (lambda it: it["rows"][0].update(score=0), "figures"),
    (without_a_row, "figures"),
    (lambda it: it["measure"].update(version="1"), "signature"),
    (lambda it: it["measure"].update(kind="exact"), "signature"),
    (lambda it: it["measure"].update(params={}), "measured"),
    (lambda it: it.update(usage={"requests": 1}), "measured"),
    (lambda it: it["labelled_set"].update(texts_sha256="0" * 64), "figures"),
]


@pytest.mark.parametrize(("edit", "failing"), EDITS)
def test_an_edited_qualification_fails(
    labelled: Path, tmp_path: Path, edit: Callable[[Any], object], failing: str
) -> None:
    out = tmp_path / "qualification.json"
    qualified(labelled, out)
    document = json.loads(out.read_bytes())
    edit(document)
    out.write_bytes(canonical_line(document))
    assert checked(out, "--labelled", labelled)[failing] == "fail"


def test_scores_that_the_measure_does_not_give_and_another_set_fail(
    labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "qualification.json"
    qualified(labelled, out)
    document = json.loads(out.read_bytes())
    document["rows"][0]["score"] = 0.25
    out.write_bytes(canonical_line(counted_again(document)))
    found = checked(out, "--labelled", labelled)
    assert found["figures"] == "pass"
    assert (found["measured"], found["signature"]) == ("fail", "fail")
    path = labelled / "claims_a.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("Removes", "Drops"), encoding="utf-8")
    assert checked(out, "--labelled", labelled)["labelled-set"] == "fail"


def test_the_signature_of_another_is_no_signature_of_a_trusted_key(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "qualification.json"
    qualified(labelled, out)
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "other"))
    assert checked(out)["signature"] == "unanchored"
    qualified(labelled, tmp_path / "theirs.json")
    trust = tmp_path / "other" / "trust.json"
    assert checked(out, "--trust", trust)["signature"] == "fail"
    assert checked(out, "--trust", tmp_path / "trust" / "trust.json")["signature"] == "pass"


@pytest.mark.parametrize(
    ("provider", "options"),
    [("anthropic", ()), ("openai", ("--provider", "openai", "--model", "a-model"))],
)
def test_a_judge_is_asked_about_each_claim_and_his_exchanges_are_kept(
    labelled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    options: tuple[str, ...],
) -> None:
    service = MessagesService(reading, provider=provider)
    out = tmp_path / "judge.json"
    with serving(service.respond) as server:
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", KEY)
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", f"http://127.0.0.1:{server.port}")
        qualified(labelled, out, "llm_judge", *options)
    document = json.loads(out.read_bytes())
    assert document["measure"]["params"]["judge"]["provider"] == provider
    assert document["usage"]["requests"] == 8
    assert document["usage"]["input_tokens"] == 80
    # Words alone: it takes a removal for what was added.
    assert document["false_support_rate"]["value"] > 0
    assert set(checked(out, "--labelled", labelled).values()) == {"pass"}
    exchanges = tmp_path / "judge.exchanges.jsonl"
    exchanges.write_bytes(exchanges.read_bytes().replace(b"supported", b"not_shown"))
    assert checked(out, "--labelled", labelled)["measured"] == "fail"
    for odd in (b"", b"{}\n", b"x", b'{"claim_id":"alpha-1","exchanges":[1]}\n'):
        exchanges.write_bytes(odd)
        # Even where the document names them.
        document["exchanges_sha256"] = sha256_hex(odd)
        out.write_bytes(canonical_line(document))
        assert checked(out, "--labelled", labelled)["measured"] == "fail"
    exchanges.unlink()
    assert checked(out, "--labelled", labelled)["measured"] == "unanchored"


def test_each_judge_of_a_panel_is_asked_in_the_form_of_its_own_provider(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = {kind: MessagesService(reading, provider=kind) for kind in ("anthropic", "openai")}
    judges = [RUBRICS.committed("m", temperature=0, provider=kind, repeats=1) for kind in services]
    panel = {"judges": judges, "split": "mean"}
    params = {"measure": "precision", "field": "key_claims", "record": "record", "panel": panel}
    with contextlib.ExitStack() as stack:
        for kind, service in services.items():
            server = stack.enter_context(serving(service.respond))
            monkeypatch.setenv(f"{kind.upper()}_API_KEY", KEY)
            monkeypatch.setenv(f"{kind.upper()}_BASE_URL", f"http://127.0.0.1:{server.port}")
        found = qualified(
            labelled, tmp_path / "panel.json", "llm_judge", "--params", json.dumps(params)
        )
    assert found["usage"]["requests"] == 16
    assert found["counts"]["supported"]["unusable"] == 0


@pytest.mark.parametrize(
    "line",
    ["{}", "no JSON", '{"claim_id": 1}',
     '{"claim_id":"x","change_id":"alpha","claim":"c","verdict":"maybe","kind":"plain"}',
     '{"claim_id":"x","change_id":"none","claim":"c","verdict":"supported","kind":"plain"}',
     '{"claim_id":"alpha-1","change_id":"alpha","claim":"c","verdict":"supported","kind":"plain"}',
     '{"change_id":"alpha","commit":"0","subject":null,"diff":""}'],
)  # fmt: skip
def test_a_line_that_is_no_change_and_no_claim_is_refused(
    labelled: Path, tmp_path: Path, line: str
) -> None:
    (labelled / "more.jsonl").write_text(line + "\n", encoding="utf-8")
    ended = echelon("qualify", "lexical_precision", "--labelled", labelled, "-o", tmp_path / "q")
    assert isinstance(ended.exception, TheatreError)
    assert exit_code_of(ended.exception) is ExitCode.INVALID


@pytest.mark.parametrize(
    "arguments", [("nothing_such",), ("contains_terms",), ("lexical_precision", "--params", "{}")]
)
def test_a_measure_that_is_not_there_or_not_told_how_is_refused(
    labelled: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    out = tmp_path / "q.json"
    ended = echelon("qualify", *arguments, "--labelled", labelled, "-o", out)
    assert isinstance(ended.exception, TheatreError)
    assert not out.exists()
