"""The command line `echelon`: a composition root without a database.

Results go to stdout, progress and notes to stderr. Command groups are imported only when they
are called, so `echelon --help` stays quick.
"""

from __future__ import annotations

import io
import sys

import click

from theatre.cli.exits import ExitCode, run_guarded
from theatre.cli.lazy_group import LazyGroup
from theatre.oracles.isolation.kernel_rules import close_memory

COMMANDS = {
    "adversaries": (
        "theatre.cli.adversaries.command:adversaries",
        "Try programs that know nothing on a template.",
    ),
    "check": ("theatre.cli.check_command:check", "Recompute everything in an evidence bundle."),
    "compare": ("theatre.cli.compare_command:compare", "Compare oracles on one ground truth."),
    "construct": ("theatre.cli.construct_group:construct", "Serve constructs, print versions."),
    "debate": ("theatre.cli.debate_group:debate", "Validate, check and audit debate artefacts."),
    "demo": (
        "theatre.cli.demo.command:demo",
        "Start the service, certify, catch a forgery, stop it.",
    ),
    "gate": ("theatre.cli.gate_command:gate", "Show which review a construct's tier earns it."),
    "ingest": (
        "theatre.cli.verification_ground_truth:ingest",
        "Keep a repository's changes as ground truth.",
    ),
    "inspect": ("theatre.cli.inspect_command:inspect", "Show a certificate, with intervals."),
    "reproduce": ("theatre.cli.reproduce_command:reproduce", "Make the run of a bundle again."),
    "score": ("theatre.cli.score_command:score", "Score recorded answers again."),
    "theatre": ("theatre.cli.theatre_group:theatre", "Validate, commit, run and show theatres."),
    "verify": ("theatre.cli.verify_command:verify", "Score change summaries against a history."),
}
cli = LazyGroup(
    "echelon",
    commands_by_name=COMMANDS,
    entry_point_group="echelon.commands",
    help="Committed questions to AI constructs, scored, with the evidence to recompute the scores.",
)
cli = click.version_option(
    package_name="echelon-theatre", prog_name="echelon", message="%(prog)s %(version)s"
)(cli)


def main() -> None:
    """Run the command line and exit with the documented code."""
    # Constructs run as the same user must not be able to read this process's memory.
    close_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A table or a bar must not fail on a terminal without Unicode.
            stream.reconfigure(errors="backslashreplace")
    code: ExitCode = run_guarded(cli, sys.argv[1:])
    sys.exit(code)
