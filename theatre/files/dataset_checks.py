"""What is looked at in ground truth before anything is committed to it."""

from __future__ import annotations

from contextlib import ExitStack

from theatre.engine.errors import DatasetError
from theatre.engine.models import read_episodes, read_gold_labels
from theatre.engine.replay import DatasetSource
from theatre.engine.replay.record_size import largest_episode_bytes
from theatre.engine.schema_registry import Quoted, phrase
from theatre.engine.templates import ProductTheatreTemplate


def verify_datasets(view: ProductTheatreTemplate, datasets: DatasetSource) -> None:
    """Hash and parse every dataset that the template names; DatasetError for the first defect."""
    config, hashes = view.product_theatre_config, view.dataset_hashes
    with ExitStack() as stack:
        opened = {}
        for name, path in config.data_paths().items():
            opened[name] = datasets.open(path, sha256=hashes[name])
            stack.callback(opened[name].close)
        episodes = read_episodes(
            opened[config.replay_dataset_id].lines(), max_bytes=largest_episode_bytes(view)
        )
        ids = {episode.episode_id for episode in episodes}
        if not ids:
            raise DatasetError(
                phrase("expected episodes in ", Quoted(config.replay_data_path), ", got none")
            )
        if config.gold_label_set is not None:
            labels = read_gold_labels(opened[config.gold_label_dataset_id].lines())
            strangers = sorted(set(labels) - ids)
            if strangers:
                raise DatasetError(
                    phrase(
                        "expected gold labels for episodes of the dataset, got ",
                        Quoted(strangers[:5], spelt=str),
                    )
                )
