"""A click group that imports a command only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

import click
from click.shell_completion import CompletionItem

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
