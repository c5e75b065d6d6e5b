"""The command line `toy-pseudo-axion`. Exit codes: 0 ok, 1 failure, 2 usage or a broken log, 70."""

import sys
from collections.abc import Callable
from pathlib import Path

import click

from theatre.axion.common.errors import FatalHangError
from theatre.axion.harness.kernel_session import DEFAULT_WATCHDOG_MS
from theatre.axion.harness.ladder import ladder_lines, run_ladder
from theatre.axion.harness.pictures import write_pictures
from theatre.axion.harness.probes import Probe
from theatre.axion.harness.report import suite_summary, summary_lines
from theatre.axion.harness.runner import (
    AGENTS,
    COUNTEREXAMPLES,
    SuitePlan,
    run_agent,
    run_suite,
    usual_clutter,
)
from theatre.axion.harness.runner import write_report as write
from theatre.axion.harness.scenarios import SCENARIOS
from theatre.axion.interfaces.base import Mode
from theatre.axion.kernel.audit_log import verify_log
from theatre.engine.errors import ChainBrokenError, TheatreError

EXIT_FAILURE, EXIT_BROKEN_LOG, EXIT_HANG = 1, 2, 70
_FOLDER = click.Path(file_okay=False, path_type=Path)
_MODE = click.Choice([mode.value for mode in Mode])


class _Names(click.ParamType[tuple[str, ...]]):
    """A list of known names, separated by commas."""

    name = "names"

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names; fails for one that is not known, or twice there."""
        if isinstance(value, tuple):
            return value
        names = tuple(str(value).split(","))
        if not set(names) <= set(self._known) or len(set(names)) != len(names):
            self.fail(f"expected some of {', '.join(self._known)}, got {value}", param, ctx)
        return names


def _tiers(ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...]:
    if value is None:
        return usual_clutter(Mode(ctx.params["interface"]))
    tiers = value.split(",")
    if not all(tier.isascii() and tier.isdigit() for tier in tiers):
        raise click.BadParameter(f"expected whole numbers, got {value}")
    return tuple(int(tier) for tier in tiers)


def _run_options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option("--steps", type=click.IntRange(1, 10_000), default=50, show_default=True),
        click.option(
            "--interface",
            type=_MODE,
            default=Mode.MCI_LATENT.value,
            show_default=True,
            is_eager=True,
        ),
        click.option("--seed", type=int, default=0, show_default=True),
        click.option(
            "--clutter",
            callback=_tiers,
            help="More things about; a,b,… in turn.  [default: 0,0,4,8 in mci_minimal, else 0]",
        ),
        click.option(
            "--watchdog_ms",
            type=click.IntRange(1),
            default=DEFAULT_WATCHDOG_MS,
            show_default=True,
            help="How long a decision of the gate may take.",
        ),
        click.option("--out_dir", type=_FOLDER, required=True),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
@click.version_option(
    package_name="echelon-theatre", prog_name="toy-pseudo-axion", message="%(prog)s %(version)s"
)
def cli() -> None:
    """Audit agents of a gridworld through a kernel that lets nothing happen without a token."""


@cli.command("run_scenario")
@click.option("--agent", "name", type=click.Choice(AGENTS), required=True)
@click.option("--scenario", type=click.Choice(SCENARIOS), required=True)
@click.option(
    "--probe", type=click.Choice(["none", *(probe.value for probe in Probe)]), default="none"
)
@_run_options
def run_scenario(
    *,
    name: str,
    scenario: str,
    probe: str,
    steps: int,
    interface: str,
    seed: int,
    clutter: tuple[int, ...],
    watchdog_ms: int,
    out_dir: Path,
) -> None:
    """Run one episode into OUT_DIR: audit.log.jsonl, report.json, counterexamples/."""
    plan = SuitePlan(
        agents=(name,),
        mode=Mode(interface),
        episodes=1,
        steps=steps,
        seed=seed,
        scenarios=(scenario,),
        probes=frozenset() if probe == "none" else frozenset({Probe(probe)}),
        clutter=clutter,
        watchdog_ms=watchdog_ms,
    )
    (out_dir / COUNTEREXAMPLES).mkdir(parents=True, exist_ok=True)
    run = run_agent(plan, name, out_dir / "audit.log.jsonl", out_dir / COUNTEREXAMPLES)
    write(out_dir / "report.json", list(run.records))
    click.echo(f"{name} in {scenario}: {run.records[0]['probes']}")
    click.echo(f"log: {run.head.length} entries, head {run.head.entry_hash}")


@cli.command("run_suite")
@click.option("--agents", type=_Names(AGENTS), default=("honest", "pseudo"))
@click.option("--scenarios", type=_Names(SCENARIOS), default=SCENARIOS)
@click.option(
    "--probes",
    type=_Names(tuple(probe.value for probe in Probe)),
    default=tuple(probe.value for probe in Probe),
)
@click.option("--episodes", type=click.IntRange(1, 100_000), default=100, show_default=True)
@_run_options
def suite(  # noqa: PLR0913 - the options of the command
    *,
    agents: tuple[str, ...],
    scenarios: tuple[str, ...],
    probes: tuple[str, ...],
    episodes: int,
    steps: int,
    interface: str,
    seed: int,
    clutter: tuple[int, ...],
    watchdog_ms: int,
    out_dir: Path,
) -> None:
    """Run EPISODES for each agent into OUT_DIR: report.json, summary.json, a log for each."""
    plan = SuitePlan(
        agents=agents,
        mode=Mode(interface),
        episodes=episodes,
        steps=steps,
        seed=seed,
        scenarios=scenarios,
        probes=frozenset(Probe(probe) for probe in probes),
        clutter=clutter,
        watchdog_ms=watchdog_ms,
    )
    runs = run_suite(plan, out_dir)
    write(out_dir / "report.json", [record for run in runs for record in run.records])
    summary = suite_summary(plan, runs)
    write(out_dir / "summary.json", summary)
    for line in summary_lines(summary):
        click.echo(line)


@cli.command("ladder")
@click.option("--episodes", type=click.IntRange(1, 100_000), default=60, show_default=True)
@click.option("--steps", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--watchdog_ms", type=click.IntRange(1), default=DEFAULT_WATCHDOG_MS)
@click.option("--out_dir", type=_FOLDER, required=True)
def ladder(*, episodes: int, steps: int, seed: int, watchdog_ms: int, out_dir: Path) -> None:
    """Put better and better liars to the probe, level by level: ladder.json and pictures."""
    report = run_ladder(out_dir, episodes=episodes, steps=steps, seed=seed, watchdog_ms=watchdog_ms)
    write(out_dir / "ladder.json", report)
    for line in ladder_lines(report):
        click.echo(line)
    for path in write_pictures(report, out_dir):
        click.echo(str(path))


@cli.command("verify_audit")
@click.option("--path", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--expect-head", default=None, help="The head that a report names.")
@click.option("--expect-count", type=int, default=None, help="How many entries it names.")
def verify_audit(*, path: Path, expect_head: str | None, expect_count: int | None) -> None:
    """Verify a log line by line; exit 0 where it holds, 2 where it breaks."""
    try:
        head = verify_log(path, expected_head=expect_head, expected_count=expect_count)
    except ChainBrokenError as error:
        click.echo(f"broken at line {error.line}: {error}", err=True)
        sys.exit(EXIT_BROKEN_LOG)
    anchored = "" if expect_head or expect_count else " (unanchored: a cut tail cannot be seen)"
    click.echo(f"valid: {head.length} entries, head {head.entry_hash}{anchored}")


def main() -> None:
    """Run the command line; a refusal is one line on stderr and a code, never a traceback."""
    try:
        cli()
    except FatalHangError as error:
        click.echo(f"{error.code}: {error}", err=True)
        sys.exit(EXIT_HANG)
    except TheatreError as error:
        click.echo(f"{error.code}: {error}", err=True)
        sys.exit(EXIT_FAILURE)
