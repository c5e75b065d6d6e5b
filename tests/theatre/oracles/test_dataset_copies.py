"""What is refused of a construct's own files, and what only looks alike."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.runs import with_changes
from theatre.api.template_files import read_template
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import canonical_line, sha256_hex
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.files.datasets import DatasetRoots
from theatre.oracles import dataset_copies
from theatre.oracles.construct_registry import ConstructRegistry
from theatre.oracles.dataset_copies import MIN_EPISODES, refuse_dataset_copies
from theatre.oracles.endpoints import Places
from theatre.oracles.errors import DatasetCopyError

FIXTURES = Path(__file__).parents[3] / "fixtures"
TEMPLATE = read_template(FIXTURES / "templates" / "product_cartograph_v1.json")
ENTRY = """
[constructs.cartograph]
argv = ["{python}", "{folder}/main.py"]
folder = "construct"
files = ["**/*"]
"""
RULE = "Answer the question with one word and do not say how you came to it."
WORDS = ("amber", "birch", "copper", "dune", "ember", "fjord", "grove", "harbour", "inlet")


def question(number: int) -> str:
    """Return a text of fifteen words that no other number has, with what JSON has to escape."""
    first, second = divmod(number, len(WORDS))
    return (
        f"Which “{WORDS[first]}” lies\nbehind the {WORDS[second]} that is called "
        f"Zoë {number} on the old map of places?"
    )


TEXTS: list[dict[str, Any]] = [
    {
        "episode_id": f"text-{number}",
        "input_data": {"brief": RULE, "question": question(number)},
        "expected_output": {"hex": WORDS[number % 3]},
    }
    for number in range(40)
]
NUMBERS: list[dict[str, Any]] = [
    {
        "episode_id": f"number-{number}",
        "input_data": {"cube": [number, -number, 0.5], "operation": "round"},
        "expected_output": {"hex": [number, 0]},
    }
    for number in range(40)
]


class Exam:
    """A theatre about a dataset, and a construct whose files a test writes."""

    def __init__(self, folder: Path, episodes: list[dict[str, Any]]) -> None:
        self.files = folder / "construct"
        self.files.mkdir()
        (self.files / "main.py").write_text("print('an honest program')\n", encoding="utf-8")
        (folder / "constructs.toml").write_text(ENTRY, encoding="utf-8")
        self.bytes = b"".join(map(canonical_line, episodes))
        (folder / "ground_truth").mkdir()
        path = "ground_truth/product_cartograph_v1.jsonl"
        (folder / path).write_bytes(self.bytes)
        hashes = {"/dataset_hashes/cartograph_grid_reference": sha256_hex(self.bytes)}
        self.template = product_template(with_changes(TEMPLATE, hashes))
        registry = ConstructRegistry.load(folder / "constructs.toml")
        self._places = Places(find=registry.find_registered, folder=folder)
        self._data = DatasetRoots([folder])

    def require_untold(self) -> None:
        refuse_dataset_copies(self.template, self._places, self._data)


def as_list(episodes: list[dict[str, Any]]) -> bytes:
    """A JSON document with the same objects somewhere in it, spelt in another way."""
    turned = [dict(reversed(one.items())) for one in reversed(episodes)]
    return json.dumps({"few_shot": {"examples": turned}}, indent=2).encode()


def as_python(episodes: list[dict[str, Any]]) -> bytes:
    known = {one["input_data"]["question"]: one["expected_output"] for one in episodes}
    return f"KNOWN = {known!a}\n".encode()


def as_csv(episodes: list[dict[str, Any]]) -> bytes:
    table = io.StringIO()
    writer = csv.writer(table, delimiter=";")
    for one in episodes:
        writer.writerow([one["input_data"]["question"].upper(), one["expected_output"]["hex"]])
    return table.getvalue().encode()


def as_questions(episodes: list[dict[str, Any]]) -> bytes:
    """Inputs alone, one a line, as a batch that is to be answered elsewhere."""
    return "".join(json.dumps(one["input_data"]) + "\n" for one in episodes).encode()


@pytest.mark.parametrize("episodes", [TEXTS[:3], NUMBERS], ids=["few texts", "numbers"])
@pytest.mark.parametrize(
    "around",
    [(b"", b""), (b'DATA = """', b'"""\n'), (b"\xff\x00PK", b"\x00")],
    ids=["as it is", "in code", "in a binary"],
)
def test_a_file_that_holds_the_bytes_of_a_dataset_is_refused_by_name(
    tmp_path: Path, episodes: list[dict[str, Any]], around: tuple[bytes, bytes]
) -> None:
    exam = Exam(tmp_path, episodes)
    exam.require_untold()
    (exam.files / "inner").mkdir()
    (exam.files / "inner" / "blob").write_bytes(exam.bytes.strip().join(around))
    with pytest.raises(DatasetCopyError) as refusal:
        exam.require_untold()
    assert str(refusal.value) == (
        "expected files of cartograph without the ground truth of the template, got inner/blob, "
        "which holds the dataset cartograph_grid_reference: take it out of the construct's files, "
        "or certify the construct on episodes that it does not have"
    )


@pytest.mark.parametrize(
    ("episodes", "told"),
    [
        (TEXTS, as_list),
        (TEXTS, as_python),
        (TEXTS, as_csv),
        (TEXTS, as_questions),
        (NUMBERS, as_list),
        (NUMBERS, as_questions),
    ],
)
def test_ten_questions_in_another_form_are_refused_and_nine_are_not(
    tmp_path: Path, episodes: list[dict[str, Any]], told: Callable[[list[Any]], bytes]
) -> None:
    exam = Exam(tmp_path, episodes)
    (exam.files / "notes").write_bytes(told(episodes[5 : 4 + MIN_EPISODES]))
    exam.require_untold()
    # Spread over two files.
    (exam.files / "more").write_bytes(told(episodes[20:21]))
    with pytest.raises(DatasetCopyError, match=r"at least 10 lines .* \(line 6 is one\)"):
        exam.require_untold()


def test_what_all_questions_share_is_no_copy(tmp_path: Path) -> None:
    exam = Exam(tmp_path, TEXTS)
    (exam.files / "main.py").write_text(f"RULE = {RULE!r}\nANSWERS = {WORDS}\n", encoding="utf-8")
    exam.require_untold()


def test_of_a_large_dataset_a_thousand_episodes_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_copies, "MAX_EPISODES", 20)
    exam = Exam(tmp_path, TEXTS)
    (exam.files / "notes").write_bytes(as_csv(TEXTS))
    with pytest.raises(DatasetCopyError, match="at least 20 lines"):
        exam.require_untold()


def test_a_copy_far_down_in_a_large_file_is_seen(tmp_path: Path) -> None:
    exam = Exam(tmp_path, TEXTS)
    for before in range(1_048_400, 1_048_600, 20):
        (exam.files / "notes").write_bytes(b"x" * before + b" " + as_csv(TEXTS[:MIN_EPISODES]))
        with pytest.raises(DatasetCopyError, match="at least 10 lines"):
            exam.require_untold()


def shipped() -> Mapping[str, tuple[ProductTheatreTemplate, Path]]:
    found = {}
    for path in sorted((FIXTURES / "templates").glob("product_*_v1.json")):
        found[path.stem] = (product_template(read_template(path)), path.parent)
    return found


@pytest.mark.parametrize("name", shipped())
def test_no_shipped_construct_is_taken_for_one_that_knows(tmp_path: Path, name: str) -> None:
    template, folder = shipped()[name]
    workspace = Workspace.from_environment({"ECHELON_HOME": str(tmp_path)})
    places = Places(find=lambda one: workspace.find_registered(one, folder), folder=folder)
    refuse_dataset_copies(template, places, workspace.datasets_for(folder))
