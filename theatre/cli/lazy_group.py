"""A click group that imports a command only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

import click


class LazyGroup(click.Group):
    """Shows its own commands from a table, and others from an entry-point group."""

    def __init__(
        self,
        name: str,
        *,
        commands_by_name: Mapping[str, tuple[str, str]],
        entry_point_group: str,
        help: str,  # noqa: A002  # click's own name for it
    ) -> None:
        super().__init__(name, help=help, no_args_is_help=True)
        self._table = commands_by_name
        self._entry_point_group = entry_point_group

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return all command names without importing a command."""
        return sorted({*self._table, *self._others()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import and return one command; None for an unknown name."""
        if cmd_name in self._table:
            module, _, attribute = self._table[cmd_name][0].partition(":")
            return cast("click.Command", getattr(import_module(module), attribute))
        others = entry_points(group=self._entry_point_group)
        if cmd_name in others.names:
            return cast("click.Command", others[cmd_name].load())
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write the command list from the table: no command is imported for it."""
        rows = [(name, self._table[name][1]) for name in sorted(self._table)]
        rows += [(name, "") for name in self._others() if name not in self._table]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _others(self) -> list[str]:
        return sorted(entry_points(group=self._entry_point_group).names)
