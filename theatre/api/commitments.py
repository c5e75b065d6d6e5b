"""From a template to a committed theatre in the store."""

import asyncio
import contextlib
import logging
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast
from uuid import uuid4

from theatre.api.event_loop import complete
from theatre.api.qualifications import qualification_faults
from theatre.api.template_files import ValidTemplate, require_runnable
from theatre.api.workspace import OUTBOUND_ALLOW, Workspace, utc_now
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.clock import Clock, SteadyClock
from theatre.engine.coin import COIN_BYTES, Coin
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.errors import NotReproducibleError, QualificationError
from theatre.engine.replay.trail import read_run_nonce
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.engine.theatre import Theatre
from theatre.files.datasets import DatasetRoots, verify_datasets
from theatre.oracles.dataset_copies import refuse_dataset_copies
from theatre.oracles.endpoints import BY_URL, REGISTERED, endpoints, environment_for, isolation_for
from theatre.oracles.errors import AddressNotAllowedError
from theatre.scorers import load_episode_runners, load_scorers, scorers_in_use

_LOG: Final = logging.getLogger(__name__)


def commit_named(template: ValidTemplate, folder: Path, workspace: Workspace) -> Theatre:
    """Commit a template from a file in `folder`, after a look at the constructs that it names.

    What is doubtful about them is a warning. Raises UnknownConstructError,
    OutboundPolicyError, OutboundRefusedError, and what `commit_template` raises.
    """
    if isinstance(template.view, ProductTheatreTemplate):
        for doubt in check_named(template.view, workspace, folder):
            _LOG.warning("%s", doubt)
    return complete(commit_template(template, template_folder=folder, workspace=workspace))


def check_named(
    template: ProductTheatreTemplate, workspace: Workspace, template_folder: Path
) -> list[str]:
    """Judge what a template names before it is committed; return what is doubtful.

    Raises UnknownConstructError for the id of no registered construct, and OutboundPolicyError and
    OutboundRefusedError for a URL that may not be called as things are.
    """
    doubts = []
    for endpoint in endpoints(template):
        if endpoint.is_registered:
            workspace.find_registered(endpoint.place.removeprefix(REGISTERED), template_folder)
        elif endpoint.adapter_type in BY_URL and not endpoint.place.startswith("["):
            from theatre.api.http_adapters import check_address  # noqa: PLC0415  # the client costs start-up time

            with name_variable_in_errors():
                doubt = check_address(endpoint.place, workspace)
            doubts += [] if doubt is None else [f"{endpoint.pointer}: {doubt}"]
    return doubts


@contextlib.contextmanager
def name_variable_in_errors() -> Iterator[None]:
    """Say of a refused address which variable allows it."""
    try:
        yield
    except AddressNotAllowedError as error:
        line = "" if error.entry is None else f": export {OUTBOUND_ALLOW}={error.entry}"
        raise AddressNotAllowedError(f"{error}: name it in {OUTBOUND_ALLOW}{line}") from error


async def commit_template(
    template: ValidTemplate, *, template_folder: Path, workspace: Workspace, clock: Clock = utc_now
) -> Theatre:
    """Verify the datasets, create the theatre and commit it.

    Raises DatasetError for ground truth that is missing, changed or not in the episode format, and
    QualificationError for a qualification that is not one of a criterion's measure.
    Nothing is created unless the commitment can be made.
    """
    if isinstance(template.view, ProductTheatreTemplate):
        roots = workspace.datasets_for(template_folder)
        verify_datasets(template.view, roots, load_episode_runners())
        for fault in qualification_faults(template.document, template.view, roots):
            raise QualificationError(f"{fault.pointer}: {fault.detail}")
    return await _commit(
        template,
        Coin(secrets.token_bytes(COIN_BYTES)),
        template_folder=template_folder,
        workspace=workspace,
        clock=SteadyClock(clock),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealedBundle:
    """A sealed bundle that has passed its check, and the coin that it reveals."""

    coin: Coin
    bundle: Path
    bundle_hash: str

    def datasets(self) -> dict[str, Path]:
        """Return path in the template → the file of the bundle with those bytes."""
        template = product_template(self.template)
        by_sha256 = {
            sha256_hex(path.read_bytes()): path for path in (self.bundle / "ground_truth").iterdir()
        }
        return {
            path: by_sha256[template.dataset_hashes[name]]
            for name, path in template.product_theatre_config.data_paths().items()
        }

    @property
    def template(self) -> JsonObject:
        """Return the committed template."""
        return parse_object((self.bundle / "template.json").read_bytes())

    @property
    def run_nonce(self) -> bytes:
        """Return what went into the draws of the run; empty where no log had its commitment."""
        with (self.bundle / "audit_trail.jsonl").open("rb") as trail:
            entries = (parse_object(line) for line in trail)
            return next(
                read_run_nonce(cast("JsonObject", entry["detail"]))
                for entry in entries
                if entry["event_type"] == "activated"
            )


async def commit_reproduction(
    revealed: RevealedBundle, *, template_folder: Path, workspace: Workspace
) -> Theatre:
    """Commit the template of a bundle again, with the coin and the data of that bundle.

    Its receipt says so: no certificate comes of it. Errors as `require_runnable`, and
    NotReproducibleError where people rate.
    """
    template = require_runnable(revealed.template)
    for step in product_template(revealed.template).resolution_programme:
        if step.type == "hitl_rubric":
            raise NotReproducibleError(
                f"expected a run whose results rest on its constructs, got one with the step "
                f"{step.step_id}, at which people rate: nobody can give their scores again"
            )
    return await _commit(
        template,
        revealed.coin,
        template_folder=template_folder,
        workspace=workspace,
        clock=SteadyClock(utc_now),
        revealed=revealed,
    )


async def _commit(
    template: ValidTemplate,
    coin: Coin,
    *,
    template_folder: Path,
    workspace: Workspace,
    clock: SteadyClock,
    revealed: RevealedBundle | None = None,
) -> Theatre:
    document, view = template
    environment = isolation = None
    if isinstance(view, ProductTheatreTemplate):
        environment = await find_environment(view, workspace, template_folder)
        isolation = await _probe_isolation(view, workspace, template_folder)
    scorers = scorers_in_use(document, view, load_scorers())
    theatre, created = Theatre.create(str(uuid4()), document, at=clock())
    receipt = CommitmentProtocol.commit(
        theatre.theatre_id,
        document,
        coin=coin,
        scorer_pins=scorers.pins,
        scorer_kinds=scorers.kinds,
        committed_at=clock(),
        environment=environment,
        isolation=isolation,
        reproduces=None if revealed is None else revealed.bundle_hash,
    )
    store = workspace.store
    store.create_folder(
        theatre.theatre_id,
        document,
        template_folder=template_folder,
        code_folder=workspace.code_folder,
    )
    with store.hold(theatre.theatre_id) as held:
        for path, source in {} if revealed is None else revealed.datasets().items():
            (held.data / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, held.data / path)
        if revealed is not None and revealed.run_nonce:
            # Other draws would ask other questions: the run would not be made again.
            held.keep_run_nonce(revealed.run_nonce)
        await held.journal.note(created)
        store.write_receipt(receipt, coin)
        committed, event = theatre.commit(receipt)
        await held.journal.note(event)
    return committed


async def find_environment(
    template: ProductTheatreTemplate, workspace: Workspace, template_folder: Path
) -> JsonObject | None:
    """Return what the constructs of a template can import here, as `environment_for`."""
    places = workspace.places(template_folder)
    return await asyncio.to_thread(environment_for, template, places)


async def _probe_isolation(
    template: ProductTheatreTemplate, workspace: Workspace, template_folder: Path
) -> JsonObject | None:
    """Return what the constructs of a template cannot reach, as `isolation_for`."""
    closed = find_closed_folders(workspace, template_folder)
    places = workspace.places(template_folder)
    return await asyncio.to_thread(isolation_for, template, places, closed)


async def refuse_copies(
    template: ProductTheatreTemplate,
    workspace: Workspace,
    template_folder: Path,
    datasets: DatasetRoots,
) -> None:
    """Refuse constructs whose files hold the ground truth, as `refuse_dataset_copies`."""
    places = workspace.places(template_folder)
    await asyncio.to_thread(refuse_dataset_copies, template, places, datasets)


def find_closed_folders(workspace: Workspace, template_folder: Path) -> list[Path]:
    """Return the folders with answers, which no construct may read."""
    return [workspace.home.resolve(), template_folder.resolve(), *workspace.dataset_roots]
