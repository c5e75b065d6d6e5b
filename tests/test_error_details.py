"""What a construct or a command said is in the report of a test that a mere status made red."""

import pytest

pytest_plugins = ["pytester"]

RED = """
from tests.theatre.echelon_process import Answer


def test_statuses():
    replies = [{"status": "error", "error_detail": "out of paint"}, {"error_detail": None}]
    ended = Answer(code=1, stdout="", stderr="no such brush")
    assert (replies[0]["status"], ended.code) == ("success", 0)
"""


def test_each_detail_is_shown_with_the_way_to_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.error_details.TESTS", pytester.path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(RED)
    shown = pytester.runpytest_inprocess("-p", "tests.error_details").stdout.str()
    assert "replies 0 error_detail: out of paint" in shown
    assert "ended stderr: no such brush" in shown
    assert "replies 1" not in shown
