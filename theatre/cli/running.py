"""Runs one committed theatre: puts the parts together, keeps signals honest, closes everything."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from theatre.cli.committing import utc_now
from theatre.cli.workspace import Workspace
from theatre.engine.errors import ProgrammeError
from theatre.engine.oracle_contract import OracleAdapter
from theatre.engine.replay import Progress, ReplayEngine, RunSettings, Surroundings
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.files.theatre_store import HeldTheatre
from theatre.oracles.construct_registry import construct_from_argv, local_adapter_for
from theatre.oracles.local import LocalOracleAdapter
from theatre.oracles.python_callable import PythonOracleAdapter, construct_from_callable
from theatre.oracles.retry import retrying
from theatre.scorers import load_scorers

REGISTERED = "construct:"


async def run_theatre(
    theatre_id: str,
    workspace: Workspace,
    *,
    on_start: Callable[[HeldTheatre], None],
    on_progress: Callable[[Progress], None],
    batch_size: int,
) -> None:
    """Run a theatre of the store to its end; errors as `ReplayEngine`.

    Raises KeyboardInterrupt on SIGINT and SIGTERM, after every answer that is in has been
    recorded and every construct has been stopped.
    """
    with workspace.store.hold(theatre_id) as held:
        template = product_template(held.theatre.template)
        on_start(held)
        async with _adapters(template, workspace, held.template_folder) as adapters:
            engine = ReplayEngine(
                held.theatre,
                held.journal,
                Surroundings(
                    adapters=adapters,
                    invoke=retrying(asyncio.sleep),
                    datasets=workspace.datasets_for(held.template_folder),
                    scorers=load_scorers(),
                    registry=SchemaRegistry(),
                    clock=utc_now,
                    sleep=asyncio.sleep,
                    on_progress=on_progress,
                ),
                RunSettings(output_dir=held.folder, issuer=workspace.issuer, batch_size=batch_size),
            )
            with _cancelled_by(signal.SIGTERM):
                await engine.run()


@contextlib.contextmanager
def _cancelled_by(number: signal.Signals) -> Iterator[None]:
    """Let a signal cancel the run as Ctrl-C does: recorded first, then over."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _adapters(
    template: ProductTheatreTemplate, workspace: Workspace, template_folder: Path
) -> AsyncIterator[dict[str, OracleAdapter]]:
    """Open an adapter for every construct that the programme calls; close them all."""
    adapters: dict[str, OracleAdapter] = {}
    async with contextlib.AsyncExitStack() as stack:
        for step in template.programme:
            if step.construct_id is not None and step.construct_id not in adapters:
                adapter = _adapter(template, step.construct_id, workspace, template_folder)
                stack.push_async_callback(adapter.aclose)
                adapters[step.construct_id] = adapter
        yield adapters


def _adapter(
    template: ProductTheatreTemplate, construct_id: str, workspace: Workspace, folder: Path
) -> LocalOracleAdapter:
    config = template.product_theatre_config
    endpoint = config.adapter_endpoint or f"{REGISTERED}{construct_id}"
    if config.adapter_type == "python":
        function = construct_from_callable(construct_id, endpoint, folder)
        return PythonOracleAdapter(function, clock=utc_now, monotonic=time.monotonic)
    if config.adapter_type != "local":
        raise ProgrammeError(
            f"expected adapter_type local or python, got {config.adapter_type}: this version "
            "reaches constructs as child processes"
        )
    if endpoint.startswith(REGISTERED):
        construct = workspace.find_construct(endpoint.removeprefix(REGISTERED), folder)
    else:
        construct = construct_from_argv(construct_id, endpoint, folder)
    return local_adapter_for(construct, clock=utc_now, monotonic=time.monotonic)
