"""Bundles given to a saved page: what was changed is refused, and its file is named.

Half of them are dropped as folders, half are chosen as archives. That any file is named is for
`tests/theatre/pages/test_verify_js.py`, which asks the same script without a page; here few are.
"""

import io
import tarfile
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.pages.browsers import opened_window
from tests.pages.page_stage import PageStage
from tests.pages.test_forged_certificates import OWN_TRUST, PROOFS, files_of, packed, red
from tests.theatre.forged_bundle import store

ARCHIVE = "#verification input[multiple]"
LINES_OF = {
    "proofs/certificate.sigstore.json": "signature",
    "proofs/certificate.tlog-proof": "certificate-logged",
    "proofs/commitment.tlog-proof": "commitment-logged",
}
"""Files that have a line of their own; all others are named in words."""


@pytest.mark.parametrize("count", [pytest.param(6, id="few"), pytest.param(200, id="many")])
def test_a_changed_bundle_is_refused_and_the_changed_file_is_named(
    stage: PageStage, browser: Browser, tmp_path: Path, count: int
) -> None:
    whole = files_of(stage.honest.bundle)
    unnamed = {}
    with opened_window(browser, stage.kept.as_uri()) as window:
        window.open(stage.kept.as_uri())
        window.page.locator(OWN_TRUST).set_input_files(stage.honest.trust_file(tmp_path))
        window.drop(stage.honest.bundle)
        verdict, lines = window.verified()
        assert (verdict, red(lines)) == ("warn", set())
        # Another issuer's is whole, and has no file to name: it is red by its signature.
        window.drop(stage.forged.bundle)
        verdict, lines = window.verified()
        assert (verdict, "signature" in red(lines) <= PROOFS) == ("bad", True)
        for number, (name, files) in enumerate(mutants(whole, count)):
            if number % 2:
                (archive := tmp_path / f"{number}.tar.gz").write_bytes(packed(files))
                window.page.locator(ARCHIVE).set_input_files(archive)
            else:
                window.drop(store(files, tmp_path / f"{number}"))
            verdict, lines = window.verified()
            words = " ".join(lines[one][1] for one in red(lines))
            if verdict != "bad" or (name not in words and LINES_OF.get(name) not in red(lines)):
                unnamed[f"{number} {name}"] = (verdict, words)
        assert window.faults == []
    assert unnamed == {}


READ = """raw => readArchive(Uint8Array.from(atob(raw), (sign) => sign.charCodeAt(0)))
  .then((files) => [...files].map(([path, bytes]) => [path, bytes.length]).sort())
  .catch(({ message }) => message)"""


def test_an_archive_is_read_whatever_its_format_and_folder(
    stage: PageStage, browser: Browser
) -> None:
    files = {"manifest.json": b"{}", "a/b.txt": b"1" * 700, f"{'x' * 120}/c": b""}
    sizes = sorted([path, len(content)] for path, content in files.items())
    below = {f"run/{path}": content for path, content in files.items()} | {"elsewhere": b"2"}
    plain = tarred(files, tarfile.GNU_FORMAT)
    asked: list[tuple[bytes, object]] = [
        (packed(files), sizes),
        (plain, sizes),
        (tarred(files, tarfile.USTAR_FORMAT), sizes),
        (packed(below), sorted([*sizes, ["../elsewhere", 1]])),
        (plain + plain, "expected each file once, got manifest.json twice"),
        (b"no archive" * 100, "expected a tar archive, got other bytes"),
    ]
    with opened_window(browser, stage.kept.as_uri()) as window:
        window.open(stage.kept.as_uri())
        read = [window.page.evaluate(READ, b64encode(raw).decode()) for raw, _ in asked]
    assert read == [expected for _, expected in asked]


def tarred(files: Mapping[str, bytes], form: int) -> bytes:
    """Return a tar of files in one of its formats, without the end."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=form) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        return held.getvalue()


def test_a_page_that_is_saved_from_a_service_verifies_itself_without_it(
    stage: PageStage, browser: Browser, tmp_path: Path
) -> None:
    reply = stage.client.get(f"/c/{stage.certificate}/file")
    assert reply.headers["content-disposition"].startswith("attachment; ")
    (saved := tmp_path / "saved.html").write_bytes(reply.body)
    with opened_window(browser, saved.as_uri()) as window:
        window.open(saved.as_uri())
        window.page.get_by_role("button", name="Verify in this browser").click()
        kind, lines = window.verified()
        assert window.faults == []
    assert kind == "warn"
    assert {lines[name][0] for name in ("signature", "commitment-logged", "results-hash")} == {"ok"}


def mutants(whole: Mapping[str, bytes], count: int) -> list[tuple[str, dict[str, bytes]]]:
    """Return bundles with one bit of one file changed, in files and places spread over all."""
    # Whom a reader trusts he says himself: what a bundle says of that is not looked at.
    names = sorted(set(whole) - {"proofs/trust.json"})
    made = []
    for number in range(count):
        name = names[number * len(names) // count]
        changed = bytearray(whole[name])
        if not changed:
            changed = bytearray(b" ")
        changed[(number * 7919 + len(changed) // 2) % len(changed)] ^= 1
        made.append((name, {**whole, name: bytes(changed)}))
    return made
