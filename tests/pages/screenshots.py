"""Pictures for `docs/pages.md`: a certificate by day, by night, on a phone, in print.

`python -m tests.pages.screenshots` writes them again, of a sealed bundle's report. Look at them
before you commit them. Where pngquant is installed they have 64 colours, and are a third as large.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ViewportSize

from tests.pages.browsers import Scheme, opened_window, started_browser
from tests.sealed_evidence import ROOT, unpacked
from theatre.cli.report_command import write_report

SHOWN = "product_observer_v1"
IMAGES = ROOT / "docs" / "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """How a page is photographed, from its top."""

    name: str
    size: ViewportSize
    scheme: Scheme = "light"
    media: Literal["screen", "print"] = "screen"


PICTURES = (
    Picture(name="certificate-light", size={"width": 900, "height": 1400}),
    Picture(name="certificate-dark", size={"width": 900, "height": 1400}, scheme="dark"),
    Picture(name="certificate-phone", size={"width": 360, "height": 1400}),
    # A4 at 96 dots an inch.
    Picture(name="certificate-print", size={"width": 794, "height": 1123}, media="print"),
)


def photograph(browser: Browser, address: str, picture: Picture, folder: Path) -> Path:
    """Write the top of a page to a file in `folder`, and return it."""
    path = folder / f"{picture.name}.png"
    with opened_window(browser, address, scheme=picture.scheme, size=picture.size) as window:
        window.page.emulate_media(media=picture.media)
        window.open(address)
        window.page.screenshot(path=path)
    quantise = shutil.which("pngquant")
    if quantise is not None:
        subprocess.run([quantise, "--force", "--ext", ".png", "64", path], check=True)
    return path


def main() -> None:
    """Write every picture."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.html"
        write_report(str(unpacked(SHOWN, Path(temporary))), report)
        with started_browser() as browser:
            for picture in PICTURES:
                path = photograph(browser, report.as_uri(), picture, IMAGES)
                print(path.relative_to(ROOT), path.stat().st_size)  # noqa: T201 - a script


if __name__ == "__main__":
    main()
