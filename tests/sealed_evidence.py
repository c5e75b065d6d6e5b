"""The sealed bundles in `docs/evidence`: real runs of shipped theatres, packed.

Each has a coin that the command line drew, so a page whose figures depend on one quotes these.
`python -m tests.publish` makes those again that have become stale.
"""

import json
import lzma
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.theatre.echelon_process import echelon
from theatre.api.checks import check_folder
from theatre.files.published_bundle import unpack_bundle

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "fixtures" / "templates"
EVIDENCE = ROOT / "docs" / "evidence"
SEALED = (
    "product_axion_pair_v1",
    "product_axion_pseudo_v1",
    "product_cartograph_v1",
    "product_debate_control_v1",
    "product_easel_requests_v1",
    "product_observer_v1",
)
"""One of each family that rests on constructs alone, and both whose figures depend on the coin."""
MODELS = ("models_constant", "models_keywords", "models_model")
"""Of the drafts in `fixtures/models`; `make models` makes them, as a model is needed."""
JUDGE = "models_judge"
"""No bundle: qualifications by some of the labelled claims, with them and the model's answers."""
GALLERY = ("gallery_file_type", "gallery_language")
"""Tools of others, by `make gallery`: each needs packages that nothing else does."""


def archive_of(name: str) -> Path:
    """Return the archive of a sealed bundle, by the name of its template."""
    return EVIDENCE / f"{name}.tar.xz"


def of_others(name: str) -> list[str]:
    """Return the archives of other models that were asked as that of `name` was."""
    return sorted(one.name.removesuffix(".tar.xz") for one in EVIDENCE.glob(f"{name}_*.tar.xz"))


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a sealed bundle below `folder`; return the bundle."""
    unpack_bundle(archive_of(name), folder / name)
    return folder / name


def sealed_document(name: str, path: str) -> dict[str, Any]:
    """Return a JSON document of a sealed bundle."""
    with tarfile.open(archive_of(name)) as packed:
        content = packed.extractfile(f"{name}/{path}")
        assert content is not None, f"expected a file {path} in {archive_of(name)}"
        document: dict[str, Any] = json.load(content)
        return document


def answers(
    name: str, construct_id: str = ""
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Return expectation and last answer of each episode of a sealed bundle; None without one.

    An archive of several has them by construct.
    """
    with tempfile.TemporaryDirectory(prefix="echelon-sealed-") as folder:
        bundle = unpacked(name, Path(folder)) / construct_id
        lines = (bundle / "ground_truth" / "dataset.jsonl").read_bytes().splitlines()
        expected = {one["episode_id"]: one["expected_output"] for one in map(json.loads, lines)}
        records = map(json.loads, (one.read_bytes() for one in bundle.glob("invocations/*.json")))
        return [
            (
                expected[one["episode_id"]],
                one["calls"][-1]["attempts"][-1]["response"]["output_data"],
            )
            for one in records
        ]


def seal_what_is_stale(say: Callable[[str], None]) -> None:
    """Run each theatre whose bundle is not there, of another template, or fails its check."""
    EVIDENCE.mkdir(exist_ok=True)
    for name in SEALED:
        with tempfile.TemporaryDirectory(prefix="echelon-sealed-") as folder:
            if is_stale(name, Path(folder)):
                seal(name, Path(folder))
                say(f"changed {archive_of(name).relative_to(ROOT)}")


def is_stale(name: str, folder: Path) -> bool:
    """Tell whether the archive of a theatre has to be made again; unpack it to see."""
    if not archive_of(name).exists():
        return True
    bundle = unpacked(name, folder)
    committed = json.loads((bundle / "template.json").read_bytes())
    template = json.loads((TEMPLATES / f"{name}.json").read_bytes())
    return committed != template or not check_folder(bundle).consistent


def seal(name: str, folder: Path) -> None:
    """Run a theatre by the command line, with a coin that nobody chose, and pack its bundle."""
    template = TEMPLATES / f"{name}.json"
    ended = echelon("theatre", "run", template, "--json", "--quiet", home=folder / "home")
    pack(Path(ended.document["bundle_path"]), name)


def pack(bundle: Path, name: str) -> None:
    """Pack a bundle as the folder `name`: sorted, without times and owners."""
    with (
        lzma.open(archive_of(name), "wb", preset=9 | lzma.PRESET_EXTREME) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        files = (one for one in bundle.rglob("*") if one.is_file())
        # Who made it is no one: the keys of the run went with its folder.
        for path in sorted(one for one in files if one.parent.name != "proofs"):
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(bundle).as_posix()}")
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as content:
                archive.addfile(entry, content)
