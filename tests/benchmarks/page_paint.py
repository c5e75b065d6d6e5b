"""First paint of pages with a browser whose processor is slowed: minimum, median, maximum.

Started with `python -m tests.benchmarks.page_paint [TIMES]`. Each time is a new window without a
cache, by Chromium's own clock (`first-contentful-paint`); loopback, so no network is in it.
"""

import contextlib
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.backend.databases import made, migrated_template, shared_server
from tests.benchmarks.figures import sizes
from tests.pages.browsers import DESK, started_browser
from tests.pages.page_stage import page_stage
from tests.theatre.runs import ScriptedAdapter, episodes, pilot_stage
from theatre.cli.report_command import write_report

TIMES = 9
SLOWER = (1, 4, 6)
"""How many times the processor's work takes as long."""
IN_REPORT = 1000
_PAINTED = """() => new Promise(done => {
  const seen = () => performance.getEntriesByName("first-contentful-paint")[0];
  if (seen()) return done(seen().startTime);
  new PerformanceObserver(() => seen() && done(seen().startTime))
    .observe({type: "paint", buffered: true});
})"""


def first_paint(browser: Browser, address: str, slower: int) -> float:
    """Return when a page that is opened anew is first painted, in ms."""
    # Not as tests open it: their guard looks at each request, and that takes time.
    with contextlib.closing(browser.new_context(viewport=DESK)) as context:
        page = context.new_page()
        devtools = context.new_cdp_session(page)
        devtools.send("Emulation.setCPUThrottlingRate", {"rate": slower})
        page.goto(address, wait_until="load")
        return float(page.evaluate(_PAINTED))


def main() -> None:
    """Print a line for each page and each rate."""
    (times,) = sizes(TIMES)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (home := folder / "database").mkdir()
        report = folder / "report.html"
        run = pilot_stage(folder / "pilot", episodes(IN_REPORT)).run(ScriptedAdapter())
        write_report(str(run.bundle), report)
        with (
            shared_server(home) as server,
            made(server, "paint", template=migrated_template(server, home)) as database,
            page_stage(database, folder / "stage") as stage,
            started_browser() as browser,
        ):
            pages = {
                "home": f"{stage.origin}/",
                "certificate": f"{stage.origin}{stage.pages['certificate']}",
                f"report of {IN_REPORT:,} episodes": report.as_uri(),
            }
            for name, address in pages.items():
                for slower in SLOWER:
                    first_paint(browser, address, slower)  # the caches of the service, not counted
                    taken = [first_paint(browser, address, slower) for _ in range(times)]
                    middle = statistics.median(taken)
                    sys.stdout.write(
                        f"{name:26} processor 1/{slower}   min {min(taken):6.0f} ms   "
                        f"median {middle:6.0f} ms   max {max(taken):6.0f} ms\n"
                    )
            sys.stdout.write(f"the report has {report.stat().st_size / 1024:,.0f} KiB\n")


if __name__ == "__main__":
    main()
