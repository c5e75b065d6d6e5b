"""Tables and folders as people have them: read as they mean it, or refused with the line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from theatre.cli.init_command import init
from theatre.drafts.tables import ground_truth, read_table
from theatre.files.tables import TableError

LABELS: dict[str, tuple[bytes, list[Any]]] = {
    "prices": (b"text,label\na,0.10\nb,2.50\n", [0.1, 2.5]),
    "versions": (b"text,label\na,1.10\nb,1.1\n", ["1.10", "1.1"]),
    "versions that differ": (b"text,label\na,1.10\nb,2\n", ["1.10", "2"]),
    "grades": (b"text,label\na,3\nb,4.5\n", [3, 4.5]),
    "leading zeros": (b"text,label\na,01234\nb,10115\n", ["01234", "10115"]),
    "more than a double keeps": (
        b"text,label\na,1234567890123456\nb,1\n",
        ["1234567890123456", "1"],
    ),
    "more with decimals": (b"text,label\na,1234567890.1234567\nb,1\n", ["1234567890.1234567", "1"]),
    "truths": (b"text,label\na,TRUE\nb,FALSE\n", ["TRUE", "FALSE"]),
    "of an office": (b'\xef\xbb\xbftext;label\r\n"a, or\r\nb";x\r\nc;y\r\n;\r\n;\r\n', ["x", "y"]),
    "carriage returns alone": (b"text,label\ra,x\rb,y\r", ["x", "y"]),
    "a separator that is said": (b"sep=|\r\na, or;|label\r\nc|x\r\n", ["x"]),
    "separators in a name": (b'"a; or; b",label\na,x\n', ["x"]),
    "tabs.tsv": (b"text, if any\tlabel\na, b\tx\nc\ty\n", ["x", "y"]),
}


@pytest.mark.parametrize("written", LABELS)
def test_a_label_stays_what_was_written(tmp_path: Path, written: str) -> None:
    data, labels = LABELS[written]
    path = tmp_path / (written if written.endswith(".tsv") else "mine.csv")
    path.write_bytes(data)
    assert [row["label"] for row in read_table(path).rows] == labels


NO_CSV: dict[str, tuple[bytes, str]] = {
    "a quotation mark that is never closed": (b'text,label\na,x\nb,"y\nc,x\nd,y\n', "after line 2"),
    "quotation marks in a text": (b'text,label\n"he said "hi" there",x\n', "after line 1"),
    "a carriage return in a text": (b"text,label\na\rb,x\n", "in line 2"),
    "a text that is too long": (b"text,label\n" + b"x" * 140_000 + b",x\n", "JSON Lines"),
    "of Excel on Windows": ("text,label\nü,x\n".encode("cp1252"), "save it as UTF-8"),
    "of Excel as Unicode text": ("text,label\nü,x\n".encode("utf-16"), "save it as UTF-8"),
    "a blank before a quotation mark": (b'text, label\na, "x, y"\n', "with no blank before them"),
    "a value too few": (b"text,label\n\na,x\n\nb\n", "in line 5"),
}


@pytest.mark.parametrize("written", NO_CSV)
def test_rows_are_never_swallowed(tmp_path: Path, written: str) -> None:
    data, said = NO_CSV[written]
    path = tmp_path / "mine.csv"
    path.write_bytes(data)
    with pytest.raises(TableError, match=said):
        read_table(path)


def test_a_text_of_json_may_hold_any_separator(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"q": "a\u2028b\u0085c", "answer": "x"}\r\n\n', encoding="utf-8")
    assert read_table(path).rows == ({"q": "a\u2028b\u0085c", "answer": "x"},)


NO_LINES: dict[str, tuple[bytes, str]] = {
    "a list": (b'[\n {"q": "a", "answer": "x"}\n]\n', "each of the list into a line of its own"),
    "another encoding": ('{"q": "ü", "answer": "x"}'.encode("cp1252"), "save it as UTF-8"),
    "an object over lines": (b'{\n "q": "a"\n}\n', "write one into a line of its own"),
    "a table": (b"q,answer\na,x\n", "of its own, or call a table NAME.csv$"),
    "no number": (b'{"q": "a", "answer": NaN}\n', "got NaN$"),
    "a name twice": (b'{"q": "a", "q": "b"}\n', "got 'q' twice$"),
}


@pytest.mark.parametrize("written", NO_LINES)
def test_what_is_no_json_lines_says_what_to_do(tmp_path: Path, written: str) -> None:
    data, said = NO_LINES[written]
    path = tmp_path / "mine.jsonl"
    path.write_bytes(data)
    with pytest.raises(TableError, match=said):
        read_table(path)


def test_a_table_with_nothing_to_ask_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("id,label\n1,x\n2,y\n", encoding="utf-8")
    with pytest.raises(TableError, match="a column to ask"):
        ground_truth(read_table(path))


def test_rows_without_an_answer_are_counted_and_blanks_are_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    rows = "".join(f"{n},{'x' if n == 2 else ' ' if n == 3 else ''}\n" for n in range(1, 10))
    path.write_text(f"text,label\n{rows}", encoding="utf-8")
    said = "got none in row 1, 3, 4, 5, 6 and 3 more of the data: fill it in"
    with pytest.raises(TableError, match=said):
        ground_truth(read_table(path))


def test_ids_in_capitals_are_ids(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("ID,text,label\n007,a,x\n008,b,y\n", encoding="utf-8")
    episodes = [json.loads(line) for line in ground_truth(read_table(path)).lines.splitlines()]
    assert [one["episode_id"] for one in episodes] == ["007", "008"]
    assert episodes[0]["input_data"] == {"text": "a"}


def files(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xef\xbb\xbf" + os.fsencode(path.stem))
    return folder


def test_what_tools_keep_in_a_folder_is_no_data(tmp_path: Path) -> None:
    kept = ("pos/.ipynb_checkpoints/a.txt", ".git/config", "pos/.DS_Store")
    rows = read_table(files(tmp_path, "pos/a.txt", "neg/b.txt", *kept)).rows
    assert rows == (
        {"id": "neg/b.txt", "text": "b", "label": "neg"},
        {"id": "pos/a.txt", "text": "a", "label": "pos"},
    )


MIXED = {
    "a folder in that of a label": (("pos/2020/a.txt", "neg/b.txt"), "next to pos/2020/a.txt"),
    "a text next to labels": (("README.txt", "neg/b.txt"), "README.txt next to neg/b.txt"),
    "an answer to nothing": (("a.txt", "a.answer.txt", "b.answer.txt"), "b.answer.txt"),
    "a question without answer": (("a.txt", "a.answer.txt", "b.txt"), "b.answer.txt"),
    "a name that is not UTF-8": ((os.fsdecode(b"pos/\xff.txt"),), "names in UTF-8"),
}


@pytest.mark.parametrize("mixture", MIXED)
def test_no_file_is_left_out_or_gets_the_label_of_another(tmp_path: Path, mixture: str) -> None:
    names, said = MIXED[mixture]
    with pytest.raises(TableError, match=said):
        read_table(files(tmp_path, *names))


def test_init_says_as_what_it_read_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("id,zip,n,label\n007,01234,5,x\n8,1,6,y\n", encoding="utf-8")
    answer = CliRunner().invoke(init, ["new", "--yes", "--data", "mine.csv"])
    assert answer.exit_code == 0, answer.output
    assert answer.output.splitlines()[:3] == [
        "read        mine.csv: 2 rows, the first 007",
        '  asked     {"zip": "01234", "n": 5}',
        '  answer    {"label": "x"}',
    ]
    # The recipe's own name, of support messages, would stand on the certificate.
    assert 'name: "Label of mine"' in (tmp_path / "new" / "echelon.yaml").read_text()
