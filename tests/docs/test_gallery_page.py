"""`docs/gallery.md`: its figures are those of the sealed bundles, which the check recomputes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gallery import FILE_TYPES, FOLDER, LANGUAGES, PAGE, file_types, languages, lines, table
from tests.sealed_evidence import GALLERY, sealed_document, unpacked
from theatre.api.checks import check_folder

pytestmark = pytest.mark.untraced


def test_the_table_is_that_of_the_certificates() -> None:
    certificates = {name: sealed_document(name, "certificate.json") for name in GALLERY}
    assert table(certificates) in PAGE.read_text(encoding="utf-8")


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
