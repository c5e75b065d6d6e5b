"""verify.js: what a browser computes of a bundle is what `echelon check` says of it.

Where the check refuses and the page does not, the page names a line as not checked: of which place
each line speaks is a list. The other way round there is nothing. All bundles of a test are asked of
one Node process.
"""

import hashlib
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sealed_evidence import MODELS, SEALED, unpacked
from tests.theatre.bundle_mutants import Mutant, mutants
from tests.theatre.conftest import SmallRun, run_small_theatre
from tests.theatre.every_feature import run_every_feature
from tests.theatre.every_rating import run_every_rating
from tests.theatre.forged_bundle import Effort, Files, check, failed_ids, load, store
from tests.theatre.mutation_survivors import fits, put
from tests.theatre.pages.verify_page import NODE, VERIFY, ask, encoded, of_bundle
from tests.theatre.test_canonical_json_boundaries import LINES, value_of
from tests.theatre.test_verify_bundle import in_turn
from tests.theatre.transparency.issued_bundle import IN_A_DAY, WITNESS, IssuedBundle, issue_bundle
from theatre.engine.bundle_check import arithmetic
from theatre.engine.bundle_check.report import CheckId
from theatre.engine.canonical_json import canonical_bytes, canonical_line, parse_json
from theatre.engine.errors import TheatreError
from theatre.engine.theatre import Theatre

JCS = Path(__file__).parents[3] / "fixtures" / "vectors" / "jcs"
ONLY_THE_CHECK_SEES = {
    "audit_trail.jsonl/*/at": "times",
    "audit_trail.jsonl/activated/**": "activation",
    "commitment_receipt.json/isolation**": "activation",
    "scores/baselines.json/**": "baselines",
    "scores/data_audit.json/**": "data-audit",
    "certificate.json/baselines/**": "baselines",
    "certificate.json/data_audit/**": "data-audit",
    "invocations/*/**": "scorers",
    "scores/aggregate.json/score_intervals/**": "intervals",
    "scores/aggregate.json/holdout_scores**": "holdout",
    "scores/per_episode.jsonl/holdout": "holdout",
    "scores/aggregate.json/answered_only**": "views",
    "scores/aggregate.json/refusals_as_zero**": "views",
    "scores/aggregate.json/worst_case_bounds**": "views",
    "scores/aggregate.json/calibration**": "calibration",
    "certificate.json/usage**": "usage",
    "certificate.json/qualification**": "qualifications",
    "certificate.json/corrected_scores**": "qualifications",
    "certificate.json/findings**": "findings",
    "certificate.json/version_source": "version-pins",
    "certificate.json/episode_root": "episode-root",
    "audit_trail.jsonl/hitl_opened/**": "human-scores",
    "audit_trail.jsonl/human_score/**": "human-scores",
    "audit_trail.jsonl/human_score_refused/**": "human-scores",
    "hitl/*/**": "human-scores",
    "scores/aggregate.json/human_scores**": "human-scores",
    "audit_trail.jsonl/step_completed/**": "resolution",
    "audit_trail.jsonl/step_failed/**": "resolution",
    "resolution.json/**": "resolution",
    "scores/aggregate.json/computed/**": "resolution",
    # Where people have a share in the scores, and else never: the line is then unsettled.
    "scores/aggregate.json/composite_score": "aggregate",
    "tier.json/history/**": "history",
}
"""Places of which only `echelon check` sees a change, and the line that is not checked there."""
NOT_MADE = frozenset(
    {
        *("certificate-schema", "certificate-copy", "times", "invocations", "sanitised-input"),
        *("version-pins", "scorers", "human-scores", "data-audit", "baselines", "resolution"),
        *("issuer-identity", "times-and-latencies", "history"),
    }
)
STATED = [
    *("activation", "holdout", "intervals", "views", "calibration", "usage", "findings"),
    *("episode-root", "repeats", "qualifications", "history"),
]
"""Parts that are taken as the bundle states them."""
MADE = frozenset(one.value for one in CheckId) - NOT_MADE
RUNS = {
    "of few episodes": lambda folder: run_small_theatre(folder).sealed,
    "with every feature": run_every_feature,
    "that people rated": run_every_rating,
}


@pytest.fixture(scope="module")
def small(real_run: SmallRun) -> Path:
    return real_run.sealed


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> IssuedBundle:
    return issue_bundle(tmp_path_factory.mktemp("issued"), witness=WITNESS)


def trust_of(issued: IssuedBundle, **changes: Any) -> str:  # noqa: ANN401
    """Return the issuer's trust.json as a question has it."""
    return encoded(canonical_line(issued.trust.as_document() | changes)) or ""


def failed(answer: dict[str, Any]) -> list[str]:
    """Return which lines are red, once what the whole says has been found to say so."""
    result = answer["value"]
    red = [line["id"] for line in result["lines"] if line["status"] == "failed"]
    assert (result["failed"], result["ok"]) == (red, not red)
    assert result["verdict"].startswith("not valid" if red else "verified in your browser")
    return red


def whys(answer: dict[str, Any]) -> str:
    return " ".join(line["why"] for line in answer["value"]["lines"] if line["status"] == "failed")


# Forms.


def test_the_vectors_of_canonical_json_have_their_forms() -> None:
    names = sorted(path.name for path in (JCS / "input").iterdir())
    answers = ask(
        [{"kind": "form", "raw": encoded((JCS / "input" / n).read_bytes())} for n in names]
    )
    assert [answer["value"] for answer in answers] == [
        (JCS / "output" / name).read_text(encoding="utf-8") for name in names
    ]


def documents() -> list[bytes]:
    """Return documents at the borders of what is let in, and those of the project's vectors."""
    whole = [b"-0", b"-0.0", b"1E+2", b"9007199254740991", b"1e21", b"5e-324", b"1e-400", b" 1\n"]
    whole += [b'{"__proto__":1}', b'{"b":1,"a":2,"10":3,"9":4}', b'"\\ud83d\\ude00"', b'"\x7f"']
    whole += [b"[" * 64 + b"]" * 64, b'{"\xf0\x9f\x98\x80":1,"\xef\xac\xb3":2}']
    broken = [b'{"a":1,"\\u0061":1}', b"9007199254740992", b"9007199254740992.0", b"-1e17"]
    broken += [b"1e400", b"NaN", b"[Infinity]", b'"\\ud800"', b'{"\\udfff":1}', b"\xef\xbb\xbf{}"]
    broken += [b"\xff", b"", b"{} {}", b"[1,]", b'{"a":1,}', b"01", b"+1", b".5", b"1.", b"[1 2]"]
    broken += [b'"\n"', b'"\\x41"', b"tru", b'{"a" 1}', b"{a:1}", b"[" * 65 + b"]" * 65, b'"']
    texts = [line["text"].encode() for line in LINES if "text" in line]
    numbers = [canonical_bytes(value_of(line)) for line in LINES if "form" in line]
    return whole + broken + texts + numbers


def test_what_python_refuses_is_refused_and_all_else_has_the_same_form() -> None:
    expected: list[str | None] = []
    for raw in documents():
        try:
            expected.append(canonical_bytes(parse_json(raw)).decode())
        except TheatreError:
            expected.append(None)
    answers = ask([{"kind": "form", "raw": encoded(raw)} for raw in documents()])
    assert [answer.get("value") for answer in answers] == expected
    assert 20 < expected.count(None) < len(expected)


def test_wilsons_interval_is_that_of_the_check() -> None:
    pairs = [(right, number) for number in (1, 2, 7, 50, 163) for right in range(number + 1)]
    answers = ask([{"kind": "wilson", "right": r, "number": n} for r, n in pairs])
    assert [tuple(answer["value"]) for answer in answers] == [
        arithmetic.wilson(right, number) for right, number in pairs
    ]


def der(*numbers: bytes) -> bytes:
    parts = b"".join(bytes([2, len(number)]) + number for number in numbers)
    return bytes([0x30, len(parts)]) + parts


def test_a_signature_has_one_spelling_in_der() -> None:
    low, high = b"\x01" * 32, b"\x00\x81" + b"\x02" * 31
    good = {
        der(low, low): low + low,
        der(high, low): high[1:] + low,
        der(b"\x05", low): b"\x00" * 31 + b"\x05" + low,
    }
    bad = [
        der(b"\x00" + low, low),  # a zero too many
        der(high[1:], low),  # negative
        der(b"", low),
        der(b"\x01" * 33, low),
        der(low),
        der(low, low) + b"\x00",
        der(low, low, low),
        der(low, low)[:-1],
        b"\x30\x81" + der(low, low)[1:],  # a length in two bytes
        b"\x31" + der(low, low)[1:],
        der(low, low).replace(b"\x02", b"\x03", 1),
        b"",
    ]
    answers = ask([{"kind": "signature", "der": encoded(raw)} for raw in [*good, *bad]])
    assert [answer.get("value") for answer in answers] == [
        *(raw.hex() for raw in good.values()),
        *[None] * len(bad),
    ]


# Bundles.


@pytest.mark.parametrize("names", [SEALED[2:3], (*SEALED, *MODELS)], ids=["one", "all"])
def test_no_line_of_a_shipped_bundle_is_red(names: tuple[str, ...], tmp_path: Path) -> None:
    answers = ask([of_bundle(unpacked(name, tmp_path)) for name in names])
    assert [failed(one) for one in answers] == [[] for _ in names]
    for answer in answers:
        right = {line["id"] for line in answer["value"]["lines"] if line["status"] == "ok"}
        assert right == MADE


def test_the_lines_are_those_of_the_check(small: Path) -> None:
    (answer,) = ask([of_bundle(small)])
    outside = {CheckId.ISSUER_IDENTITY, CheckId.TIMES_AND_LATENCIES, CheckId.HISTORY}
    ids = [line["id"] for line in answer["value"]["lines"]]
    made = [one.value for one in CheckId if one not in outside]
    assert ids == [*made, *PROOF_LINES, "closure", *STATED]
    unmade = [line["id"] for line in answer["value"]["lines"] if line["status"] == "not checked"]
    assert answer["value"]["unchecked"] == unmade
    assert answer["value"]["verdict"].endswith(
        f"{len(ids) - len(unmade)} of {len(ids)}; {len(unmade)} need `echelon check`: "
        + ", ".join(unmade)
    )


def tried(bundle: Path, folder: Path, count: int) -> Iterator[tuple[Mutant, Files, dict[str, Any]]]:
    """Yield mutants of a bundle with the most that a forger can do, and a question about each."""
    files = load(bundle)
    store(files, folder)
    every = in_turn(mutants(files))
    for mutant in every[:: max(1, len(every) // count)]:
        try:
            forged = mutant.forged(files, max(Effort))
        except (AttributeError, TypeError):
            continue  # what the forger needs for a new chain is what was taken away
        paths = files.keys() | forged.keys()
        changed = {p: forged.get(p) for p in paths if files.get(p) != forged.get(p)}
        yield mutant, forged, of_bundle(folder, changed)


def disagreements(bundle: Path, folder: Path, count: int) -> tuple[list[Any], Counter[Any]]:
    """Return where verify.js says another thing than the check, and how often both say what."""
    found = list(tried(bundle, folder, count))
    answers = ask([question for _, _, question in found])
    files, wrong = load(folder), []
    seen: Counter[Any] = Counter()
    for (mutant, forged, _), answer in zip(found, answers, strict=True):
        touched = {p for p in files.keys() | forged.keys() if files.get(p) != forged.get(p)}
        put(folder, forged, touched)
        report = check(folder)
        put(folder, files, touched)
        red, theirs = failed(answer), failed_ids(report) & MADE
        seen[report.consistent, not red] += 1
        unchecked = answer["value"]["unchecked"]
        explained = theirs <= set(unchecked) or any(
            fits(mutant.place, place) and line in unchecked
            for place, line in ONLY_THE_CHECK_SEES.items()
        )
        if (red and report.consistent) or (theirs and not red and not explained):
            wrong.append((mutant.name, sorted(theirs), red, whys(answer)[:300]))
    return wrong, seen


def test_a_changed_bundle_is_red_where_the_check_says_so(small: Path, tmp_path: Path) -> None:
    wrong, seen = disagreements(small, tmp_path / "bundle", 20)
    assert wrong == []
    assert seen[False, False] >= 8


@pytest.mark.parametrize("run", RUNS)
def test_many_changed_bundles_are_red_where_the_check_says_so(run: str, tmp_path: Path) -> None:
    wrong, seen = disagreements(RUNS[run](tmp_path / "run"), tmp_path / "bundle", 200)
    assert wrong == []
    assert seen[False, False] > 60


@pytest.mark.parametrize("count", [20, 200], ids=["few", "many"])
def test_a_file_that_is_changed_is_named(small: Path, count: int) -> None:
    """Who changes a file alone, and makes no hash anew, cannot hide which it was."""
    files = load(small)
    every = [one for one in in_turn(mutants(files)) if not one.file.endswith("SHA256SUMS")]
    chosen = every[:: max(1, len(every) // count)]
    changed = []
    for mutant in chosen:
        forged = mutant.edit(files)
        paths = files.keys() | forged.keys()
        changed.append({p: forged.get(p) for p in paths if files.get(p) != forged.get(p)})
    answers = ask([of_bundle(small, one) for one in changed])
    for mutant, change, answer in zip(chosen, changed, answers, strict=True):
        assert failed(answer), mutant.name
        assert any(path in whys(answer) for path in change), (mutant.name, whys(answer))


def test_what_no_template_asks_for_is_on_no_certificate(small: Path) -> None:
    """No line would speak of it, and a page shows it: the adversary `unasked-figures`."""
    members = ("qualification", "corrected_scores", "repeats")
    forged = [edited(load(small), "certificate.json", **{name: {"colour": 1}}) for name in members]
    answers = ask([of_bundle(small, one) for one in forged])
    assert ["certificate-fields" in failed(one) for one in answers] == [True] * 3


def test_a_word_of_a_template_is_no_measure(small: Path) -> None:
    files = load(small)
    template = json.loads(files["template.json"])
    template["display_name"] = "qualifications"
    worded = files | {"template.json": canonical_line(template)}
    forged = [
        edited(worded, "certificate.json", **{name: value})
        for name in ("qualification", "corrected_scores")
        for value in ({"colour": 1}, {})
    ]
    said = [whys(one) for one in ask([of_bundle(small, one) for one in forged])]
    assert ["certificate.json: no such measure" in one for one in said] == [True] * 4


def test_only_a_template_that_withholds_leaves_lines_open(small: Path) -> None:
    """Else a file more would hide forged scores: the adversary `nothing-withheld`."""
    template = json.loads((small / "template.json").read_bytes())
    template["product_theatre_config"]["withheld"] = {"share": 0.5}
    scores = b"".join(
        (small / "scores/per_episode.jsonl").read_bytes().splitlines(keepends=True)[1:]
    )
    forged = {"episodes.jsonl": b"", "scores/per_episode.jsonl": scores}
    withholding = {"episodes.jsonl": b"", "template.json": canonical_line(template)}
    proven = edited(load(small), "certificate.json", verification_tier="PROVEN")
    every = (forged, withholding, withholding | proven)
    reds = [set(failed(one)) for one in ask([of_bundle(small, changed) for changed in every])]
    assert {"inventory", "scores", "results-hash"} <= reds[0]
    assert [red & {"inventory", "scores", "tier"} for red in reds[1:]] == [set(), {"tier"}]


def test_sums_in_another_order_are_red(small: Path) -> None:
    lines = load(small)["SHA256SUMS"].splitlines(keepends=True)
    (answer,) = ask([of_bundle(small, {"SHA256SUMS": b"".join(reversed(lines))})])
    assert "sums" in failed(answer)


def edited(files: Files, path: str, **members: Any) -> Files:  # noqa: ANN401
    """Return one file with members of its last document changed, and no hash made anew."""
    *before, last = files[path].splitlines(keepends=True)
    return {path: b"".join([*before, canonical_line(json.loads(last) | members)])}


def unchained(files: Files) -> Files:
    """Return a trail whose last entry follows nothing, and has its own hash right."""
    *before, last = files["audit_trail.jsonl"].splitlines(keepends=True)
    entry = json.loads(last) | {"prev_entry_hash": "1" * 64}
    linked = {name: value for name, value in entry.items() if name != "entry_hash"}
    entry["entry_hash"] = hashlib.sha256(canonical_bytes(linked)).hexdigest()
    return {"audit_trail.jsonl": b"".join([*before, canonical_line(entry)])}


def test_each_line_is_red_for_what_it_is_about(small: Path) -> None:
    files, other = load(small), "1" * 64
    record = next(path for path in files if path.startswith("invocations/"))
    lines = "scores/per_episode.jsonl"
    facts: Any = json.loads(files["tier.json"])["facts"]
    one_more = {"path": "more.json", "size_bytes": 3, "sha256": hashlib.sha256(b"{}\n").hexdigest()}
    inventory = [*json.loads(files["manifest.json"])["file_inventory"], one_more]
    listed = {"file_inventory": sorted(inventory, key=lambda one: one["path"])}
    bounds: Any = json.loads(files["scores/aggregate.json"])["score_intervals"]
    next(one for one in bounds.values() if one["method"] == "wilson")["low"] += 0.001
    changes: list[tuple[str, Files]] = [
        ("aggregate", edited(files, "scores/aggregate.json", score_intervals=bounds)),
        ("sums", {"SHA256SUMS": other.encode() + files["SHA256SUMS"][64:]}),
        ("bundle-hash", edited(files, "certificate.json", evidence_bundle_hash=other)),
        ("manifest", edited(files, "manifest.json", bundle_id="another")),
        ("audit-chain", unchained(files)),
        ("audit-chain", edited(files, "audit_trail.jsonl", entry_hash=other)),
        ("audit-episodes", edited(files, record, remark=1)),
        ("aggregate", edited(files, "scores/aggregate.json", composite_score=0.999)),
        ("results-hash", edited(files, "scores/aggregate.json", results_hash=other)),
        ("scores", edited(files, lines, composite=0.999)),
        ("outcomes", edited(files, lines, outcome="another")),
        ("tier", edited(files, "tier.json", assessment={"tier": "PROVEN"})),
        ("tier", edited(files, "tier.json", facts=facts | {"total": facts["total"] + 1})),
        ("certificate-fields", edited(files, "certificate.json", verification_tier="PROVEN")),
        ("datasets", edited(files, "ground_truth/dataset.jsonl", remark=1)),
        ("coin", {"coin.txt": other.encode() + b"\n"}),
        ("commitment", edited(files, "commitment_receipt.json", commitment_hash=other)),
        ("template", edited(files, "template.json", theatre_id="another")),
        ("canonical-form", {"tier.json": b" " + files["tier.json"]}),
        ("inventory", {"more.json": b"{}\n"}),
        ("inventory", {"more.json": b"{}\n", **edited(files, "manifest.json", **listed)}),
    ]
    answers = ask([of_bundle(small, dict(files)) for _, files in changes])
    red = [line for (line, _), one in zip(changes, answers, strict=True) if line in failed(one)]
    assert red == [line for line, _ in changes]


def test_the_tier_proven_is_never_green(tmp_path: Path) -> None:
    """It rests on other runs: without any it is red, with some it is left to `echelon check`."""
    bundle = unpacked("product_observer_v1", tmp_path)
    files = load(bundle)
    until = datetime.fromisoformat(json.loads(files["certificate.json"])["theatre_resolved_at"])
    until += timedelta(days=180)
    proven = {"tier": "PROVEN", "unmet": [], "caps": [], "expires_at": f"{until:%FT%T.%fZ}"}
    history = json.loads(files["tier.json"])["history"] | {"telemetry": [{}]}
    alone, with_others = ask(
        [
            of_bundle(bundle, dict(edited(files, "tier.json", assessment=proven))),
            of_bundle(bundle, dict(edited(files, "tier.json", assessment=proven, history=history))),
        ]
    )
    assert "tier" in failed(alone)
    assert {"tier", "history"} <= set(with_others["value"]["unchecked"])


# Proofs.


PROOF_LINES = [
    *("signature", "signer-trusted", "commitment-logged", "certificate-logged", "order"),
    "witnesses",
]


def proofs(answer: dict[str, Any]) -> dict[str, str]:
    lines = answer["value"]["lines"]
    return {line["id"]: line["status"] for line in lines if line["id"] in PROOF_LINES}


def test_a_signed_and_logged_bundle_is_verified_to_its_witness(issued: IssuedBundle) -> None:
    asked, trust = of_bundle(issued.bundle), trust_of(issued)
    trusted, alone = ask([asked | {"trust": trust}, asked])
    assert failed(trusted) == failed(alone) == []
    assert proofs(trusted) == dict.fromkeys(PROOF_LINES, "ok") | {"witnesses": "not checked"}
    assert proofs(alone) == dict.fromkeys(PROOF_LINES, "not checked")


def test_a_browser_without_ed25519_cannot_say(issued: IssuedBundle) -> None:
    (answer,) = ask([of_bundle(issued.bundle, trust=trust_of(issued), without="ed25519")])
    assert failed(answer) == []
    assert proofs(answer)["signature"] == "ok"
    lines = {line["id"]: line for line in answer["value"]["lines"]}
    assert lines["commitment-logged"]["status"] == "not checked"
    assert lines["commitment-logged"]["why"].startswith("cannot check here")


def test_a_forged_certificate_by_another_key_has_a_red_signature(
    issued: IssuedBundle, tmp_path: Path
) -> None:
    other = issue_bundle(tmp_path, salted=True, named=False)
    answer, own = ask([of_bundle(other.bundle, trust=trust_of(one)) for one in (issued, other)])
    # All that is inside of it holds: it has the right layout, and a key that nobody here trusts.
    assert [one for one in failed(answer) if one in MADE] == []
    assert proofs(answer)["signature"] == "failed"
    assert "which you trust" in whys(answer)
    # By his own key he signed a statement that says nothing of where the commitment stands.
    assert failed(own) == ["order"]
    assert proofs(own)["commitment-logged"] == "ok", "expected the coin to open the entry"


def test_a_result_that_came_past_its_day_is_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Theatre, "is_open_too_long", lambda *_: False)
    late = issue_bundle(tmp_path, changes=IN_A_DAY, waits=timedelta(days=1, seconds=-5))
    (answer,) = ask([of_bundle(late.bundle, trust=trust_of(late))])
    assert failed(answer) == ["order"]
    assert "void: past its day" in whys(answer)


def test_each_changed_proof_is_red(issued: IssuedBundle) -> None:
    def name(file: str) -> str:
        return f"proofs/{file}"

    raw = {
        file: (issued.bundle / name(file)).read_bytes()
        for file in ("certificate.sigstore.json", "certificate.tlog-proof", "commitment.tlog-proof")
    }
    signed, logged, committed = raw
    envelope = json.loads(raw[signed])
    signature = envelope["dsseEnvelope"]["signatures"][0]
    other_letter = "A" if signature["sig"][20] != "A" else "B"
    other = json.loads(raw[signed])
    other["dsseEnvelope"]["signatures"][0]["sig"] = (
        signature["sig"][:20] + other_letter + signature["sig"][21:]
    )
    revoked: Any = issued.trust.as_document()["keys"]
    trail = (issued.bundle / "audit_trail.jsonl").read_bytes()
    # A run that began without what the log gave, and may have begun before the commitment.
    early = re.sub(rb'"run_nonce":"\w+"', b'"run_nonce":"' + b"1" * 64 + b'"', trail)
    changes: list[tuple[str, dict[str, bytes | None], str]] = [
        ("signature", {name(signed): canonical_line(other)}, trust_of(issued)),
        ("signature", {name(signed): raw[signed] + b"\n"}, trust_of(issued)),
        ("certificate-logged", {name(logged): raw[committed]}, trust_of(issued)),
        ("commitment-logged", {name(committed): raw[logged]}, trust_of(issued)),
        ("commitment-logged", {"audit_trail.jsonl": early}, trust_of(issued)),
        (
            "signer-trusted",
            {},
            trust_of(issued, keys=[one | {"revoked_index": 0} for one in revoked]),
        ),
        ("certificate-logged", {name(logged): flipped(raw[logged])}, trust_of(issued)),
    ]
    answers = ask([of_bundle(issued.bundle, files, trust=trust) for _, files, trust in changes])
    red = [line in failed(one) for (line, *_), one in zip(changes, answers, strict=True)]
    assert red == [True] * len(changes)


def flipped(proof: bytes) -> bytes:
    """Return a proof whose checkpoint has another signature."""
    at = proof.index(b"\n\n\xe2\x80\x94 ") + 80
    return proof[:at] + (b"A" if proof[at : at + 1] != b"A" else b"B") + proof[at + 1 :]


@pytest.mark.parametrize("count", [20, 200], ids=["few", "many"])
def test_who_has_not_the_key_changes_nothing_unseen(issued: IssuedBundle, count: int) -> None:
    """Every hash may be made anew: the certificate is then another than what was signed."""
    files, trust = load(issued.bundle), trust_of(issued)
    every = in_turn(mutants(files))
    questions = []
    for mutant in every[:: max(1, len(every) // count)]:
        forged = mutant.forged(files, max(Effort))
        paths = files.keys() | forged.keys()
        changed = {p: forged.get(p) for p in paths if files.get(p) != forged.get(p)}
        if changed:  # what a forger makes anew may be what there was
            questions.append((mutant, of_bundle(issued.bundle, changed, trust=trust)))
    answers = ask([question for _, question in questions])
    assert [m.name for (m, _), one in zip(questions, answers, strict=True) if not failed(one)] == []


# The file, and the command.


def test_it_is_read_in_about_half_an_hour() -> None:
    """docs/pages.md says how long it is: what is added has to take something away."""
    text = VERIFY.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 1390
    assert len(text.split()) <= 8050
    assert max(map(len, text.splitlines())) <= 100


def ran(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([NODE, VERIFY, *arguments], capture_output=True, text=True, check=False)


def test_as_a_command_it_ends_with_0_1_or_2(small: Path, tmp_path: Path) -> None:
    assert (ran(small).returncode, ran(tmp_path).returncode) == (0, 2)
    changed = store(load(small) | {"tier.json": b"{}\n"}, tmp_path / "changed")
    done = ran(changed)
    assert (done.returncode, done.stderr) == (1, "")
    assert "failed       sums: SHA256SUMS: tier.json" in done.stdout
