"""Ground truth on disk: found inside the dataset roots, hashed, and read from the same open file.

Source: docs/contract/evidence.md §2 (no second open between hashing and parsing) and
docs/contract/template.md (dataset roots; `..`, links out of a root and absolute paths).
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import DatasetError, DatasetMismatchError
from theatre.engine.models import (
    EpisodeRunner,
    GroundTruthEpisode,
    read_episodes,
    read_gold_labels,
)
from theatre.engine.replay import DatasetSource
from theatre.engine.replay.context import open_datasets
from theatre.engine.replay.preflight import largest_episode_bytes
from theatre.engine.schema_registry import Quoted, SchemaRegistry, phrase
from theatre.engine.templates import ProductTheatreTemplate

# What is looked at in ground truth before anything is committed to it.


def verify_datasets(
    view: ProductTheatreTemplate,
    datasets: DatasetSource,
    runners: Mapping[str, EpisodeRunner],
    look: Callable[[GroundTruthEpisode, JsonObject | None], None] | None = None,
) -> None:
    """Hash and parse every dataset that the template names; DatasetError for the first defect.

    An input that the runner of interactive episodes, if it is one of `runners`, cannot play is one.
    `look` is shown each episode with its gold label, if it has one.
    """
    config = view.product_theatre_config
    runner, registry = runners.get(config.episode_runner), SchemaRegistry()

    def require_playable(episode: GroundTruthEpisode) -> None:
        schema = {} if runner is None else runner.input_schema
        if faults := registry.validate_inline(schema, episode.input_data):
            raise DatasetError(
                f"line {episode.seq}: expected input_data for {config.episode_runner}, got at "
                f"{faults[0].pointer or '/'}: {faults[0].detail}"
            )

    with open_datasets(view, datasets) as opened:
        gold = opened.others.get(config.gold_label_dataset_id, opened.replay)
        is_labelled = config.gold_label_set is not None
        labels = read_gold_labels(gold.lines()) if is_labelled else {}
        ids = set()
        for episode in read_episodes(opened.replay.lines(), max_bytes=largest_episode_bytes(view)):
            ids.add(episode.episode_id)
            if look is not None:
                look(episode, labels.get(episode.episode_id))
            if runner is not None:
                require_playable(episode)
        if not ids:
            raise DatasetError(
                phrase("expected episodes in ", Quoted(config.replay_data_path), ", got none")
            )
        chosen = config.withheld
        for named, what in (
            (chosen.episodes if chosen is not None else (), "withheld episodes"),
            (labels, "gold labels for episodes"),
        ):
            if absent := sorted({*named} - ids):
                raise DatasetError(
                    phrase(f"expected {what} of the dataset, got ", Quoted(absent[:5], spelt=str))
                )


_CHUNK = 256 * 1024
MAX_LINE_BYTES = 8 * 1024 * 1024


class DatasetFile:
    """One open dataset; reads by position, so several readers can share it.

    The bytes are those of the file that was opened, even if its name is given to another file
    meanwhile. A write into that very file is found when it is read to its end.
    """

    def __init__(self, path: Path) -> None:
        """Open and hash `path`; DatasetError where it cannot be read."""
        with contextlib.ExitStack() as undo:
            try:
                # Not blocking: the open of a pipe would wait for a writer.
                self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                undo.callback(self.close)
                self._hash_and_count()
            except OSError as error:
                raise DatasetError(
                    f"expected a readable dataset at {path}, got: {error.strerror}"
                ) from error
            undo.pop_all()

    @property
    def sha256(self) -> str:
        """Return the SHA-256 over the raw bytes, as read when the file was opened."""
        return self._sha256

    @property
    def lines_total(self) -> int:
        """Return the number of lines; a last line without a line feed counts."""
        return self._lines

    def lines(self) -> Iterator[bytes]:
        """Yield each line without its line feed, streaming; errors as `chunks`.

        DatasetError for a line that grows past MAX_LINE_BYTES without an end.
        """
        rest = b""
        for chunk in self.chunks():
            *complete, rest = (rest + chunk).split(b"\n")
            yield from complete
            if len(rest) > MAX_LINE_BYTES:
                raise DatasetError(f"expected lines of at most {MAX_LINE_BYTES} bytes, got more")
        if rest:
            yield rest

    def chunks(self) -> Iterator[bytes]:
        """Yield the raw bytes in pieces.

        DatasetMismatchError at the end where they are not those that were hashed at the opening.
        """
        hasher = hashlib.sha256()
        for chunk in self._pieces():
            hasher.update(chunk)
            yield chunk
        if hasher.hexdigest() != self._sha256:
            raise DatasetMismatchError(
                f"The dataset changed during the run: expected SHA-256 {self._sha256}, got "
                f"{hasher.hexdigest()}"
            )

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _hash_and_count(self) -> None:
        hasher = hashlib.sha256()
        lines, last = 0, b""
        for chunk in self._pieces():
            hasher.update(chunk)
            lines += chunk.count(b"\n")
            last = chunk
        self._sha256 = hasher.hexdigest()
        self._lines = lines + (last != b"" and not last.endswith(b"\n"))

    def _pieces(self) -> Iterator[bytes]:
        position = 0
        while chunk := os.pread(self._handle, _CHUNK, position):
            position += len(chunk)
            yield chunk


class DatasetRoots:
    """The folders in which relative dataset paths are looked up, in order."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(root.resolve() for root in roots)

    def find(self, path: str) -> Path:
        """Return the file at `path` in the first root that has it.

        Raises DatasetError for an absolute path, a path or link that leaves its root, and a
        file that no root has.
        """
        relative = Path(path)
        if relative.is_absolute() or ".." in relative.parts:
            raise DatasetError(f"expected a path inside a dataset root, got {path}")
        for root in self._roots:
            found = _regular_file(root / relative)
            if found is not None:
                if not found.is_relative_to(root):
                    raise DatasetError(
                        f"expected {path} inside its dataset root, got a link out, to {found}: "
                        "put the file itself in its place"
                    )
                return found
        looked_in = ", ".join(str(root) for root in self._roots)
        raise DatasetError(f"The dataset was not found: expected {path} in {looked_in}")

    def open(self, path: str, *, sha256: str) -> DatasetFile:
        """Open the dataset at `path`; DatasetMismatchError unless it hashes to `sha256`."""
        dataset = DatasetFile(self.find(path))
        # By the bytes of this very descriptor: the path may lead to another file later.
        if dataset.sha256 != sha256:
            dataset.close()
            raise DatasetMismatchError(
                f"The dataset changed since the commitment: expected {path} with SHA-256 {sha256}, "
                f"got {dataset.sha256}. Restore the committed file, or commit the new one as a "
                "new theatre."
            )
        return dataset


def _regular_file(path: Path) -> Path | None:
    """Return the real path of a regular file; None where there is none, or no way to it."""
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        # RuntimeError: a loop of links before Python 3.13; ValueError: a NUL in the name.
        return None
    return found if found.is_file() else None
