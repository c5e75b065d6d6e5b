"""Rules on data and adapters of a replay (docs/contract/template.md §3).

Pure: whether a file exists and holds the committed bytes is asked at commit and at run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PureWindowsPath

from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import Finding, Rule, Subject, as_object, as_text
from theatre.engine.templates import GOLD_LABELS, gold_is_unpinned

_CONFIG = "product_theatre_config"
_SEPARATOR = re.compile(r"[/\\]")
_FILE_NAME = re.compile(r"(?!(?:dataset|gold_labels)$)[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def _replay_dataset_hashed(subject: Subject) -> Iterator[Finding]:
    dataset = subject.product("replay_dataset_id")
    if dataset is not None and dataset not in subject.object_at("dataset_hashes"):
        yield (
            json_pointer(_CONFIG, "replay_dataset_id"),
            phrase("expected a name with a hash in dataset_hashes, got ", Quoted(dataset)),
        )


def _dataset_path_present(subject: Subject) -> Iterator[Finding]:
    config = subject.at(_CONFIG)
    if not subject.replays or not isinstance(config, dict):
        return
    for member in ("replay_dataset_id", "replay_data_path"):
        if member not in config:
            yield json_pointer(_CONFIG), f"expected member {member} in a replay, got none"


def _dataset_path_inside_root(subject: Subject) -> Iterator[Finding]:
    for pointer, path in _paths(subject):
        fault = _path_fault(path, from_api=subject.from_api)
        if fault is not None:
            yield pointer, phrase(f"{fault}, got ", Quoted(path))


def _dataset_names_match_paths(subject: Subject) -> Iterator[Finding]:
    hashed = subject.object_at("dataset_hashes")
    named = named_datasets(subject)
    for name in hashed:
        if name not in named:
            pointer = json_pointer("dataset_hashes", name)
            yield (pointer, phrase("expected a path for the dataset ", Quoted(name), ", got none"))
    seen: set[str] = set()
    for name, pointer in _every_name(subject):
        if name in seen:
            yield (
                pointer,
                phrase("expected one path for the dataset ", Quoted(name), ", got a second one"),
            )
        elif name not in hashed and pointer != json_pointer(_CONFIG, "replay_dataset_id"):
            yield (
                pointer,
                phrase("expected a hash in dataset_hashes for ", Quoted(name), ", got none"),
            )
        seen.add(name)


def _dataset_name_is_file_name(subject: Subject) -> Iterator[Finding]:
    # A further dataset becomes a file of its name in the evidence; those two names are taken.
    gold = subject.product("gold_label_dataset_id") or GOLD_LABELS
    for name in subject.object_at(_CONFIG, "dataset_paths"):
        if name != gold and not _FILE_NAME.fullmatch(name):
            yield (
                json_pointer(_CONFIG, "dataset_paths", name),
                (
                    phrase(
                        "expected a name of letters, digits, _, - and (not first) dots, other than "
                        "dataset and gold_labels; got ",
                        Quoted(name),
                    )
                ),
            )


def _gold_unpinned(subject: Subject) -> Iterator[Finding]:
    if gold_is_unpinned(subject.document):
        yield (
            json_pointer(_CONFIG, "gold_label_set"),
            (
                f"expected a hash in dataset_hashes for {GOLD_LABELS}, got none: the labels are "
                "not used, and the tier is capped at UNVERIFIED"
            ),
        )


def _mock_adapter_refused(subject: Subject) -> Iterator[Finding]:
    if subject.certificate_run:
        for pointer in _mocks(subject):
            yield pointer, "expected an adapter that reaches a real construct, got mock"


def _mock_adapter_rehearsal(subject: Subject) -> Iterator[Finding]:
    if not subject.certificate_run:
        for pointer in _mocks(subject):
            yield pointer, "expected a real construct, got mock: such a run gives no certificate"


def _paths(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield every data path of the template with its pointer."""
    for member in ("replay_data_path", "gold_label_set"):
        path = subject.product(member)
        if path is not None:
            yield json_pointer(_CONFIG, member), path
    for name, further in subject.object_at(_CONFIG, "dataset_paths").items():
        if isinstance(further, str):
            yield json_pointer(_CONFIG, "dataset_paths", name), further


def _path_fault(path: str, *, from_api: bool) -> str | None:
    if "\0" in path:
        return "expected a path without a NUL character"
    if ".." in _SEPARATOR.split(path):
        return "expected a path that stays inside its dataset root (no ..)"
    # Windows rules see a drive as well as a leading slash of either kind.
    if from_api and PureWindowsPath(path).anchor:
        return "expected a path relative to a dataset root"
    return None


def _every_name(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield each dataset name that has a path, and where a repetition would be corrected."""
    replay = subject.product("replay_dataset_id")
    if replay is not None:
        yield replay, json_pointer(_CONFIG, "replay_dataset_id")
    if subject.product("gold_label_set") is not None and not gold_is_unpinned(subject.document):
        gold = subject.product("gold_label_dataset_id")
        member = "gold_label_set" if gold is None else "gold_label_dataset_id"
        yield gold or GOLD_LABELS, json_pointer(_CONFIG, member)
    for name in subject.object_at(_CONFIG, "dataset_paths"):
        yield name, json_pointer(_CONFIG, "dataset_paths", name)


def named_datasets(subject: Subject) -> set[str]:
    """Return the names of the datasets that have a path."""
    return {name for name, _ in _every_name(subject)}


def _mocks(subject: Subject) -> Iterator[str]:
    if subject.product("adapter_type") == "mock":
        yield json_pointer(_CONFIG, "adapter_type")
    for construct, endpoint in subject.object_at(_CONFIG, "construct_endpoints").items():
        if as_text(as_object(endpoint).get("adapter_type")) == "mock":
            yield json_pointer(_CONFIG, "construct_endpoints", construct, "adapter_type")


RULES = (
    Rule("replay-dataset-hashed", _replay_dataset_hashed),
    Rule("dataset-path-present", _dataset_path_present),
    Rule("dataset-path-inside-root", _dataset_path_inside_root),
    Rule("dataset-names-match-paths", _dataset_names_match_paths),
    Rule("dataset-name-is-file-name", _dataset_name_is_file_name),
    Rule("gold-unpinned", _gold_unpinned, severity="warning"),
)

CERTIFICATE_RULES = (
    Rule("mock-adapter-refused", _mock_adapter_refused),
    Rule("mock-adapter-rehearsal", _mock_adapter_rehearsal, severity="warning"),
)
