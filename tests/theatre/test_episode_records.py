"""Datasets and gold labels are read line by line, and refused by the number of the line."""

import pytest

from theatre.engine.errors import DatasetError
from theatre.engine.models import (
    MAX_EPISODE_BYTES,
    GroundTruthEpisode,
    read_episodes,
    read_gold_labels,
)

MINIMAL = b'{"episode_id":"e1","input_data":{}}'
LABEL = b'{"episode_id":"e1","label":{"a":1},"labeller":"ann"}'


def test_an_episode_keeps_all_its_members_and_its_place() -> None:
    full = (
        b'{"episode_id":"e2","input_data":{"q":1},"expected_output":{"a":1.5},'
        b'"labels":{"hard":true},"cluster_key":"c","metadata":{"from":"x"}}\r\n'
    )
    assert list(read_episodes([MINIMAL + b"\n", full])) == [
        GroundTruthEpisode(seq=1, episode_id="e1", input_data={}),
        GroundTruthEpisode(
            seq=2,
            episode_id="e2",
            input_data={"q": 1},
            expected_output={"a": 1.5},
            labels={"hard": True},
            cluster_key="c",
            metadata={"from": "x"},
        ),
    ]


def test_an_episode_without_an_expectation_differs_from_one_with_an_empty_one() -> None:
    (absent,) = read_episodes([MINIMAL])
    (empty,) = read_episodes([b'{"episode_id":"e","input_data":{},"expected_output":{}}'])
    assert (absent.expected_output, empty.expected_output) == (None, {})


def test_episodes_are_read_one_at_a_time() -> None:
    episodes = read_episodes(iter([MINIMAL, b"broken"]))
    assert next(episodes).episode_id == "e1"
    with pytest.raises(DatasetError, match=r"^line 2: expected JSON, "):
        next(episodes)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "expected JSON, "),
        (b"\n", "expected JSON, "),
        (b"not json", "expected JSON, "),
        (b"[]", "expected a JSON object, got array"),
        (MINIMAL + MINIMAL, "expected JSON, "),
        (b'{"episode_id":"a","episode_id":"b","input_data":{}}', "unique keys, got 'episode_id'"),
        (b'{"episode_id":"a","input_data":{"x":NaN}}', "expected finite numbers, got NaN"),
        (b"\xef\xbb\xbf" + MINIMAL, "got a byte order mark"),
        (b'{"episode_id":"\xff","input_data":{}}', "expected UTF-8"),
        (b'{"input_data":{}}', "expected episode_id as a string, got null"),
        (b'{"episode_id":7,"input_data":{}}', "expected episode_id as a string, got integer"),
        (b'{"episode_id":"","input_data":{}}', "expected episode_id as a string, got "),
        (b'{"episode_id":"a"}', "expected input_data as an object, got null"),
        (b'{"episode_id":"a","input_data":[]}', "expected input_data as an object, got array"),
        (
            b'{"episode_id":"a","input_data":{},"expected_output":null}',
            "expected expected_output as an object, got null",
        ),
        (
            b'{"episode_id":"a","input_data":{},"expected_output":"x"}',
            "expected expected_output as an object, got string",
        ),
        (
            b'{"episode_id":"a","input_data":{},"labels":[]}',
            "expected labels as an object, got array",
        ),
        (
            b'{"episode_id":"a","input_data":{},"metadata":1.5}',
            "expected metadata as an object, got number",
        ),
        (
            b'{"episode_id":"a","input_data":{},"cluster_key":true}',
            "expected cluster_key as a string, got boolean",
        ),
        (
            b'{"episode_id":"a","input_data":{},"zeta":1,"expected":{}}',
            "input_data, labels, metadata; got expected, zeta",
        ),
        (MINIMAL, "expected a new episode_id, got 'e1' again"),
        (b" " * (MAX_EPISODE_BYTES + 1), f"expected at most {MAX_EPISODE_BYTES} bytes, got "),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[:40]!r}",
)
def test_a_line_that_is_no_episode_is_refused_by_its_number(line: bytes, message: str) -> None:
    with pytest.raises(DatasetError) as caught:
        list(read_episodes([MINIMAL, line]))
    assert str(caught.value).startswith("line 2: ")
    assert message in str(caught.value)
    assert caught.value.code == "dataset-invalid"


def test_gold_labels_are_read_by_episode() -> None:
    other = b'{"episode_id":"e2","label":{},"labeller":"bob","note":"unsure"}\n'
    assert read_gold_labels([LABEL, other]) == {"e1": {"a": 1}, "e2": {}}
    assert read_gold_labels([]) == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "expected JSON, "),
        (b"null", "expected a JSON object, got null"),
        (b'{"episode_id":"a","label":{}}', "expected labeller as a string, got null"),
        (b'{"episode_id":"a","label":{},"labeller":""}', "expected labeller as a string, got "),
        (b'{"episode_id":"a","labeller":"x"}', "expected label as an object, got null"),
        (
            b'{"episode_id":"a","label":"yes","labeller":"x"}',
            "expected label as an object, got string",
        ),
        (b'{"label":{},"labeller":"x"}', "expected episode_id as a string, got null"),
        (
            b'{"episode_id":"a","label":{},"labeller":"x","labels":{}}',
            "expected only episode_id, label, labeller, note; got labels",
        ),
        (LABEL, "expected one label an id, got 'e1' again"),
    ],
)
def test_a_line_that_is_no_gold_label_is_refused_by_its_number(line: bytes, message: str) -> None:
    with pytest.raises(DatasetError) as caught:
        read_gold_labels([LABEL, line])
    assert str(caught.value).startswith("line 2: ")
    assert message in str(caught.value)
