"""The command line `echelon`: a composition root without a database.

Results go to stdout, progress and notes to stderr. Command groups are imported only when they
are called, so `echelon --help` stays quick.
"""

import gc
import io
import logging
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

import click
from click.shell_completion import CompletionItem

from theatre.cli.exits import ExitCode, NoticeLines, run_guarded
from theatre.oracles.isolation.kernel_rules import close_memory

CommandTable = Mapping[str, tuple[str, str]]
"""Command → where it lives (`module:attribute`), and the line that `--help` shows of it."""


class LazyGroup(click.Group):
    """Shows its own commands from a table, and others from tables of an entry-point group.

    An entry point of the group names a table of its distribution, in a module that imports little.
    """

    def __init__(
        self,
        name: str,
        *,
        commands_by_name: CommandTable,
        help: str,  # noqa: A002  # click's own name for it
        entry_point_group: str | None = None,
    ) -> None:
        super().__init__(name, help=help, no_args_is_help=True)
        self._own = commands_by_name
        self._entry_point_group = entry_point_group

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return all command names without importing a command."""
        return sorted(self._table())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import and return one command; None for an unknown name."""
        table = self._own if cmd_name in self._own else self._table()
        if cmd_name not in table:
            return None
        module, _, attribute = table[cmd_name][0].partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` begin with; UsageError names the one that is near."""
        name, table = args[0], self._own
        if name not in table and not name.startswith("-") and name not in (table := self._table()):
            near = get_close_matches(name, table, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise click.UsageError(
                f"expected a command of {ctx.command_path}, got {name!r}{hint}; "
                f"`{ctx.command_path} --help` lists them",
                ctx,
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write the command list from the tables: no command is imported for it."""
        rows = [(name, line) for name, (_, line) in sorted(self._table().items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, and the group's options; no command is imported."""
        rows = sorted(self._table().items())
        found = [CompletionItem(name, help=line) for name, (_, line) in rows]
        named = [one for one in found if one.value.startswith(incomplete)]
        # Of the group's own options alone: click would import every command for its help.
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def _table(self) -> CommandTable:
        """Return all commands; those of an entry point cannot replace one of this group."""
        others: dict[str, tuple[str, str]] = {}
        if self._entry_point_group is not None:
            for entry in entry_points(group=self._entry_point_group):
                others |= _table_of(entry)
        return {**others, **self._own}


def _table_of(entry: EntryPoint) -> CommandTable:
    """Return the table of a distribution; a broken one becomes a command that says so."""
    try:
        return cast("CommandTable", dict(entry.load()))
    except Exception as error:  # noqa: BLE001 - others' code: the commands of the rest go on
        return {entry.name: (entry.value, f"does not load: {type(error).__name__}")}


COMMANDS = {
    "adversaries": (
        "theatre.cli.adversaries.command:adversaries",
        "Try programs that know nothing on a template.",
    ),
    "attest": ("theatre.cli.attest_command:attest", "Sign what the check of a bundle found."),
    "audit": ("theatre.cli.audit_group:audit", "Ask for a sample of episodes, and check it."),
    "check": ("theatre.cli.check_command:check", "Recompute everything in an evidence bundle."),
    "compare": ("theatre.cli.compare_command:compare", "Compare runs of one dataset."),
    "completion": (
        "theatre.cli.completion_command:completion",
        "Print what your shell needs to complete commands.",
    ),
    "construct": (
        "theatre.cli.construct_group:construct",
        "Serve and list constructs, print versions.",
    ),
    "debate": (
        "theatre.cli.debate_group:debate",
        "Validate, check, evaluate, draw and sweep debates.",
    ),
    "demo": (
        "theatre.cli.demo.command:demo",
        "Start the service, certify, catch a forgery, stop it.",
    ),
    "disclose": ("theatre.cli.audit_group:disclose", "Open some episodes of a bundle to a reader."),
    "gate": ("theatre.cli.gate_command:gate", "Show which review a construct's tier earns it."),
    "import": ("theatre.cli.import_command:import_", "Import a log that another harness finished."),
    "ingest": (
        "theatre.cli.verification_ground_truth:ingest",
        "Keep a repository's changes as ground truth.",
    ),
    "init": ("theatre.cli.init_command:init", "Write a construct, a draft and data to start with."),
    "inspect": ("theatre.cli.inspect_command:inspect", "Show a certificate, with intervals."),
    "log": ("theatre.cli.log_group:log", "Show, export, check and recover your log."),
    "monitor": ("theatre.cli.monitor_command:monitor", "Follow a log, and list what it owes."),
    "pin": ("theatre.cli.pin_command:pin", "Compile a draft into the template to commit."),
    "plan": ("theatre.cli.plan_command:plan", "Say how many episodes a width needs, and the cost."),
    "qualify": (
        "theatre.cli.qualify_command:qualify",
        "Measure a measure against labelled claims.",
    ),
    "report": (
        "theatre.cli.report_command:report",
        "Write the page of a certificate, as one file.",
    ),
    "reproduce": ("theatre.cli.reproduce_command:reproduce", "Make the run of a bundle again."),
    "run": ("theatre.cli.run_command:run", "Run a draft, a template or a theatre."),
    "score": ("theatre.cli.score_command:score", "Score recorded answers again."),
    "theatre": ("theatre.cli:theatre_group", "Validate, commit, run and show theatres."),
    "trust": ("theatre.cli.trust_group:trust", "Show, rotate and revoke your signing keys."),
    "validate": (
        "theatre.cli.validate_command:validate",
        "Check a draft or a template against every rule.",
    ),
    "verify": ("theatre.cli.verify_command:verify", "Score change summaries against a history."),
    "witness": ("theatre.cli.witness_command:witness", "Cosign the logs of others."),
}
THEATRE_COMMANDS = {
    "cancel": ("theatre.cli.show_command:cancel", "End a theatre that is not to go on, as void."),
    "commit": ("theatre.cli.commit_command:commit", "Make a theatre of a template and commit it."),
    "episode": ("theatre.cli.episode_command:episode", "Show one episode, and why it scored so."),
    "episodes": (
        "theatre.cli.episodes_command:episodes",
        "List episodes: all, failed, wrong, or with a text.",
    ),
    "export": ("theatre.cli.export_command:export", "Export a certified theatre, and archive it."),
    "hash": ("theatre.cli.hash_command:hash_", "Print the hash that a template commits to."),
    "hitl": ("theatre.cli.hitl_command:hitl", "Show what people score, and record scores."),
    "list": ("theatre.cli.show_command:list_", "List the theatres here."),
    "run": ("theatre.cli.run_command:run", "Run a theatre to its certificate."),
    "show": ("theatre.cli.show_command:show", "Show the state of a theatre and its certificate."),
    "validate": (
        "theatre.cli.validate_command:validate",
        "Check a draft or a template against every rule.",
    ),
    "watch": ("theatre.cli.watch_command:watch", "Follow a run to its end, from another process."),
}
theatre_group = LazyGroup(
    "theatre", commands_by_name=THEATRE_COMMANDS, help="Validate, commit, run and show theatres."
)
cli = LazyGroup(
    "echelon",
    commands_by_name=COMMANDS,
    entry_point_group="echelon.commands",
    help="Committed questions to AI constructs, scored, with the evidence to recompute the scores."
    "\n\nBegin with `echelon init FOLDER`; `echelon check BUNDLE` checks what others have issued.",
)
cli = click.version_option(
    package_name="echelon-theatre", prog_name="echelon", message="%(prog)s %(version)s"
)(cli)

_notices = logging.getLogger("theatre.api")
_notices.addHandler(NoticeLines())
_notices.setLevel(logging.INFO)


def main() -> None:
    """Run the command line and exit with the documented code."""
    # Constructs run as the same user must not be able to read this process's memory.
    close_memory()
    # numpy adds and sorts here: threads that would multiply matrices cost each command 60 ms.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A table or a bar must not fail on a terminal without Unicode.
            stream.reconfigure(errors="backslashreplace")
    code: ExitCode = run_guarded(cli, sys.argv[1:])
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.flush()
    except OSError:
        # It was said. Python would try once more, say it again, and end with 120.
        sys.stdout = None
        code = code or ExitCode.FAILURE
    # All of it ends with the process: looking through it for garbage first would take 0.1 s.
    gc.freeze()
    sys.exit(code)
