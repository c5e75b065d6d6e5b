"""A forged certificate in the right layout: what a page says of it, and by whose keys.

The malicious server is a real one, with our page, our scripts and our policy. What it cannot do is
sign with the issuer's key, and the reader can give the issuer's trust.json as he has it. A server
may also serve another script: what counts then is a page that the reader has kept.
"""

import contextlib
import io
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser

from backend.api.http.html import PAGE_HEADERS
from tests.pages.browsers import Window, opened_window
from tests.pages.page_stage import PageStage
from theatre.api.certificate_report import page_of_bundle
from theatre.pages.certificate_page import render_certificate
from theatre.pages.rendering import STATIC, read_static

PROOFS = {"signature", "signer-trusted", "commitment-logged", "certificate-logged", "order"}
OWN_TRUST = "#verification input[type=file]:not([multiple], [webkitdirectory])"
GREEN = b"""globalThis.echelonVerify = { needs: null,
  verify: async () => ({ ok: true, verdict: "all is well",
    lines: [{ id: "signature", status: "ok", expected: "", got: "", why: "by key of Ada" }] }) };"""


@contextlib.contextmanager
def malicious_server(
    bundle: Mapping[str, bytes], trust: bytes, folder: Path, *, script: bytes | None = None
) -> Iterator[str]:
    """Serve the page of a bundle as a service does; yield its origin."""
    root = folder / "served"
    for path, content in bundle.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    page = page_of_bundle(root, None, record=None, now=datetime.now(UTC))
    page = replace(
        page,
        held=None,
        verification={"bundle": "/bundle", "document": "/document", "trust": "/trust.json"},
    )
    answers = {
        "/": render_certificate(page).encode(),
        "/bundle": packed(bundle),
        "/document": bundle["certificate.json"],
        "/trust.json": trust,
        f"{STATIC}verify.js": script or read_static("verify.js"),
        **{f"{STATIC}{name}": read_static(name) for name in ("page.js", "style.css")},
    }
    kinds = {"js": "text/javascript", "css": "text/css"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            self.send_response(200 if path in answers else 404)
            for name, value in PAGE_HEADERS.items():
                kind = kinds.get(path.rpartition(".")[2], value)
                self.send_header(name, kind if name == "Content-Type" else value)
            self.end_headers()
            self.wfile.write(answers.get(path, b""))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files, as a service sends it."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz", compresslevel=1) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return held.getvalue()


def files_of(bundle: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(bundle.rglob("*")) if path.is_file())
    return {path.relative_to(bundle).as_posix(): path.read_bytes() for path in paths}


def red(lines: Mapping[str, tuple[str, str]]) -> set[str]:
    return {name for name, (how, _) in lines.items() if how == "failed"}


def verified_there(window: Window) -> tuple[str, dict[str, tuple[str, str]]]:
    """Press the page's own button."""
    window.page.locator("#verification button").click()
    return window.verified()


def test_the_page_of_a_service_verifies_what_that_service_has(
    stage: PageStage, browser: Browser
) -> None:
    # What it sends is two gzip members, proofs in front: a browser's own stream takes one.
    with opened_window(browser, stage.origin) as window:
        window.open(f"{stage.origin}{stage.pages['certificate']}")
        verdict, lines = verified_there(window)
        assert window.faults == []
    assert (verdict, red(lines)) == ("warn", set())
    assert {name: lines[name][0] for name in PROOFS} == dict.fromkeys(PROOFS, "ok")


def test_who_signs_with_another_key_is_red_by_the_readers_trust(
    stage: PageStage, browser: Browser, tmp_path: Path
) -> None:
    forged = files_of(stage.forged.bundle)
    own_word = stage.forged.trust_file(tmp_path).read_bytes()
    with (
        malicious_server(forged, own_word, tmp_path) as origin,
        opened_window(browser, origin) as window,
    ):
        window.open(origin)
        alone = verified_there(window)
        window.page.locator(OWN_TRUST).set_input_files(stage.honest.trust_file(tmp_path))
        window.page.locator("#verification li[data-id=signature].failed").wait_for()
        trusting = window.verified()
        drawn = window.page.locator("#verification li[data-id=signature]").evaluate(
            "one => getComputedStyle(one).color.match(/[0-9]+/g).map(Number)"
        )
        assert window.faults == []
    # By the keys of that server alone nothing is wrong: the line says whose they are, and that
    # the whole is not green.
    assert (alone[0], red(alone[1])) == ("warn", set())
    signed = alone[1]["signature"][1]
    (key,) = stage.forged.trust.keys
    assert key.key.kid in signed
    assert "trust.json of this service" in signed
    assert trusting[0] == "bad"
    assert drawn[0] > 2 * max(drawn[1:3]), "expected a red line"
    assert "signature" in red(trusting[1]) <= PROOFS
    (honest,) = stage.honest.trust.keys
    assert honest.key.kid in trusting[1]["signature"][1]


def test_a_signature_of_something_else_is_red_without_the_readers_help(
    stage: PageStage, browser: Browser, tmp_path: Path
) -> None:
    real = {
        path: content
        for path, content in files_of(stage.honest.bundle).items()
        if path.startswith("proofs/")
    }
    trust = stage.honest.trust_file(tmp_path).read_bytes()
    forged = files_of(stage.forged.bundle) | real
    with (
        malicious_server(forged, trust, tmp_path) as origin,
        opened_window(browser, origin) as window,
    ):
        window.open(origin)
        verdict, lines = verified_there(window)
        assert window.faults == []
    # Nothing else is wrong with it: it is a whole run, by another.
    assert (verdict, "signature" in red(lines) <= PROOFS) == ("bad", True)


def test_what_a_server_says_by_its_own_script_a_kept_page_refuses(
    stage: PageStage, browser: Browser, tmp_path: Path
) -> None:
    forged = files_of(stage.forged.bundle)
    own_word = stage.forged.trust_file(tmp_path).read_bytes()
    with (
        malicious_server(forged, own_word, tmp_path, script=GREEN) as origin,
        opened_window(browser, origin) as window,
    ):
        window.open(origin)
        lied = verified_there(window)
    with opened_window(browser, stage.kept.as_uri()) as window:
        window.open(stage.kept.as_uri())
        window.page.locator(OWN_TRUST).set_input_files(stage.honest.trust_file(tmp_path))
        window.drop(stage.forged.bundle)
        kept = window.verified()
        assert window.faults == []
    # A page is what its server makes of it: docs/pages.md says so, and what to do.
    assert red(lied[1]) == set()
    assert (kept[0], "signature" in red(kept[1]) <= PROOFS) == ("bad", True)


def test_a_saved_page_verifies_itself_without_a_service(
    stage: PageStage, browser: Browser, tmp_path: Path
) -> None:
    with opened_window(browser, stage.kept.as_uri()) as window:
        window.page.context.set_offline(True)
        window.open(stage.kept.as_uri())
        verdict, lines = verified_there(window)
        window.page.locator(OWN_TRUST).set_input_files(stage.forged.trust_file(tmp_path))
        window.page.locator("#verification li[data-id=signature].failed").wait_for()
        by_others = window.verified()
        assert window.faults == []
    assert (verdict, red(lines)) == ("warn", set())
    assert {name: lines[name][0] for name in PROOFS} == dict.fromkeys(PROOFS, "ok")
    assert (by_others[0], "signature" in red(by_others[1]) <= PROOFS) == ("bad", True)
