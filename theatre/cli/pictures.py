"""From a certified theatre to its pictures; matplotlib is imported here, and only when asked."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from theatre.engine.canonical_json import parse_object
from theatre.engine.errors import NotFoundError
from theatre.engine.evidence_bundle import bundle_name
from theatre.files.theatre_store import TheatreView


def draw_pictures(view: TheatreView, folder: Path, *, home: Path) -> list[Path]:
    """Draw the scores of a theatre as `draw_bundle`; NotFoundError where it has no certificate."""
    return draw_bundle(_certified_bundle(view), folder, home=home)


def draw_bundle(bundle: Path, folder: Path, *, home: Path) -> list[Path]:
    """Draw the scores in a bundle into `folder`, which is made; return the files written.

    matplotlib keeps what it learned of the machine's fonts in `home`/cache.

    Raises click's BadParameter where there can be no such folder.
    """
    certificate = parse_object((bundle / "certificate.json").read_bytes())
    aggregate = parse_object((bundle / "scores" / "aggregate.json").read_bytes())
    prepare(folder, home=home)
    # Imported here: matplotlib costs a second that nothing else need pay.
    from theatre.cli.plots import write_plots  # noqa: PLC0415  # see above

    return write_plots(aggregate, certificate, folder)


def prepare(folder: Path, *, home: Path) -> None:
    """Make `folder`, and tell matplotlib, before it is imported, where to keep its cache.

    Raises click's BadParameter where there can be no such folder.
    """
    _make(folder)
    # It reads its variable when it is imported, and says things that are not about the picture.
    os.environ.setdefault("MPLCONFIGDIR", str(home.resolve() / "cache" / "matplotlib"))
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


def _certified_bundle(view: TheatreView) -> Path:
    resolution = view.resolution or {}
    if resolution.get("outcome") == "certified":
        return view.folder / bundle_name(view.theatre_id)
    ended = f"{resolution['outcome']} ({resolution['outcome_reason']})" if resolution else None
    seen = f"its outcome is {ended}" if ended else f"it is {view.state}: run it to its end first"
    raise NotFoundError(
        f"expected a certificate of theatre {view.theatre_id} to draw, got none: {seen}"
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"expected a folder, or a place where one can be made, got {folder}: {error.strerror}",
            param_hint="--plot",
        ) from error
