"""Bundles given to the page of a report: what was changed is refused, and its file is named."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.pages.browsers import opened_window
from tests.sealed_evidence import unpacked
from theatre.cli.report_command import write_report


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("models_constant", tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def report(bundle: Path) -> Path:
    path = bundle.parent / "report.html"
    write_report(str(bundle), path)
    return path


@pytest.mark.parametrize("count", [pytest.param(20, id="few"), pytest.param(200, id="many")])
def test_a_changed_bundle_is_refused_and_the_changed_file_is_named(
    bundle: Path, report: Path, browser: Browser, count: int
) -> None:
    whole = {
        path.relative_to(bundle).as_posix(): path.read_bytes()
        for path in sorted(bundle.rglob("*"))
        if path.is_file()
    }
    with opened_window(browser, report.as_uri()) as window:
        window.open(report.as_uri())
        status, failed = dropped(window.page, whole)
        assert (failed, status.partition(":")[0]) == ([status], "verdict warn")
        unnamed = {}
        for name, files in mutants(whole, count):
            status, failed = dropped(window.page, files)
            if "bad" not in status or not any(name in line for line in failed):
                unnamed[name] = (status, failed)
        assert window.faults == []
    assert unnamed == {}


def mutants(whole: Mapping[str, bytes], count: int) -> list[tuple[str, dict[str, bytes]]]:
    """Return bundles with one bit of one file changed, in every file in turn, spread over it."""
    names = sorted(whole)
    made = []
    for number in range(count):
        name = names[number % len(names)]
        changed = bytearray(whole[name])
        changed[(number * 7919 + len(changed) // 2) % len(changed)] ^= 1
        made.append((name, {**whole, name: bytes(changed)}))
    return made


def dropped(page: Page, files: Mapping[str, bytes]) -> tuple[str, list[str]]:
    """Give the page an archive; return how it shows its verdict, and the lines that failed."""
    chooser = page.locator("#verification input[multiple]")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"bundle/{path}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    chooser.set_input_files([])
    chooser.set_input_files(
        {"name": "bundle.tar.gz", "mimeType": "application/gzip", "buffer": packed.getvalue()}
    )
    status = page.locator("#verification [role=status].verdict")
    status.wait_for()
    shown = f"{status.get_attribute('class')}: {status.text_content()}"
    failed = page.locator("#verification li.failed").all_text_contents()
    return shown, [*failed, shown]
