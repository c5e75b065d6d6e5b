"""Pictures for `docs/pages.md`: a certificate by day, by night, on a phone, in print, and the rest.

`python -m tests.pages.screenshots` writes them again: of a sealed bundle's report, and of a service
that it starts. Look at them before you commit them. Where pngquant is installed they have 64
colours, and are a third as large.
"""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ViewportSize

from tests.backend.databases import made, migrated_template, shared_server
from tests.pages.browsers import Scheme, Window, opened_window, started_browser
from tests.pages.page_stage import PageStage, page_stage
from tests.pages.test_signed_in import sign_in
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


SERVED: ViewportSize = {"width": 900, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 900}
SAID = ("The sum is right:", "two numbers are added.")


def photograph(
    browser: Browser,
    address: str,
    picture: Picture,
    folder: Path,
    *,
    origin: str | None = None,
    before: Callable[[Window], None] = lambda _: None,
) -> Path:
    """Write the top of a page to a file in `folder`, and return it; `before` may sign in."""
    path = folder / f"{picture.name}.png"
    asked = origin or address
    with opened_window(browser, asked, scheme=picture.scheme, size=picture.size) as window:
        window.page.emulate_media(media=picture.media)
        before(window)
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
        # The stage first: the browser's event loop stands in the way of those that it makes.
        with clean_stage(Path(temporary) / "served") as stage, started_browser() as browser:
            made_of = [photograph(browser, report.as_uri(), one, IMAGES) for one in PICTURES]
            made_of += photograph_served(browser, stage)
            for one in made_of:
                print(one.relative_to(ROOT), one.stat().st_size)  # noqa: T201 - a script


def photograph_served(browser: Browser, stage: PageStage) -> Iterator[Path]:
    """Write the pages of a service; the rubric as a person sees it who is asked."""

    stage.client.add_user("zoe")

    def signed_in(window: Window) -> None:
        window.open(f"{stage.origin}{stage.asking}")
        sign_in(window, stage.asking, "zoe")

    served = {f"page-{name}": (path, SERVED) for name, path in stage.pages.items()}
    served["page-phone"] = (stage.pages["comparison"], PHONE)
    for name, (path, size) in served.items():
        picture = Picture(name=name, size=size)
        yield photograph(browser, f"{stage.origin}{path}", picture, IMAGES, origin=stage.origin)
    rubric = Picture(name="page-rubric", size=SERVED)
    address = f"{stage.origin}{stage.asking}"
    yield photograph(browser, address, rubric, IMAGES, origin=stage.origin, before=signed_in)


@contextlib.contextmanager
def clean_stage(folder: Path) -> Iterator[PageStage]:
    """Serve the pages of the tests with plain words in them."""
    (home := folder / "database").mkdir(parents=True)
    with (
        shared_server(home) as server,
        made(server, "pictures", template=migrated_template(server, home)) as database,
        page_stage(database, folder / "stage", said=SAID) as stage,
    ):
        yield stage


if __name__ == "__main__":
    main()
