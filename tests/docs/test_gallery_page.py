"""`docs/gallery.md`: its figures are those of the sealed bundles, which the check recomputes."""

import json
from pathlib import Path

import pytest

from tests.gallery import (
    FILE_TYPES,
    FOLDER,
    LANGUAGES,
    PAGE,
    PUBLISHED,
    SENTENCES,
    file_types,
    languages,
    lines,
    table,
)
from tests.sealed_evidence import GALLERY, answers, sealed_document, unpacked
from theatre.api.checks import check_folder
from theatre.engine.scoring.arithmetic import wilson_bounds


def test_the_table_is_that_of_the_certificates() -> None:
    certificates = {name: sealed_document(name, "certificate.json") for name in GALLERY}
    assert table(certificates) in PAGE.read_text(encoding="utf-8")


def test_what_the_page_says_of_the_answers_is_in_the_bundles() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    files, texts = (answers(name) for name in GALLERY)
    assert f"{len(files)} and {len(texts)} distinct questions" in page
    wrong = sorted(
        (said["type"], asked["type"]) for asked, said in files if said is not None and said != asked
    )
    assert wrong == [
        *(("csv", "txt"), ("python", "yaml"), ("solidity", "txt")),
        *[("txt", "markdown")] * 2,
    ]
    right = len(files) - len(wrong)
    assert f"about {len(files)} small files" in page
    assert f"gets {right} right" in page
    # The first run had eleven files more, and all of them wrong.
    low, high = wilson_bounds(right / (len(files) + 11), len(files) + 11)
    assert f"{right / (len(files) + 11):.3f} ({low:.3f} … {high:.3f})" in page
    sentences = [line.split("\t")[1] for line in SENTENCES.read_text("utf-8").splitlines()]
    assert len(sentences) == 6 * 20
    assert f"{sum(map(len, sentences)) / len(sentences):.0f} characters long" in page


def test_the_published_means_are_those_of_the_six_languages() -> None:
    of_each = {
        "single_words": (74, 55, 62, 64, 55, 74),
        "word_pairs": (94, 81, 84, 89, 89, 95),
        "sentences": (100, 96, 98, 99, 99, 99),
    }
    means = {name: round(sum(found) / 600, 3) for name, found in of_each.items()}
    assert means == {name: value for name, (value, _) in PUBLISHED.items() if name in means}


@pytest.mark.parametrize("name", GALLERY)
def test_a_bundle_is_of_the_pinned_draft_and_its_scores_are_recomputed(
    tmp_path: Path, name: str
) -> None:
    bundle = unpacked(name, tmp_path)
    pinned = FOLDER / f"{name.removeprefix('gallery_')}.template.json"
    template = json.loads((bundle / "template.json").read_bytes())
    assert template == json.loads(pinned.read_bytes())
    assert check_folder(bundle).consistent


def test_the_datasets_are_what_the_sentences_and_the_history_give() -> None:
    assert lines(languages()) == LANGUAGES.read_text(encoding="utf-8")
    assert lines(file_types()) == FILE_TYPES.read_text(encoding="utf-8")
