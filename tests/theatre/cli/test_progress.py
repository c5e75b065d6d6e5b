"""The progress line: bar, counts, median latency, time to go; drawn as often as it is of use."""

from dataclasses import replace
from fractions import Fraction

import pytest

from theatre.cli.progress import PLAIN_INTERVAL, ProgressLine
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import InvocationStatus
from theatre.engine.replay import Progress
from theatre.engine.replay.usage import UsageTally


class Watch:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def watch() -> Watch:
    return Watch()


def answered(done: int, status: str = "success", latency_ms: int = 10, total: int = 10) -> Progress:
    return Progress(done=done, total=total, status=InvocationStatus(status), latency_ms=latency_ms)


def begun(watch: Watch, *, done: int = 0, total: int = 10, title: str = "t") -> ProgressLine:
    line = ProgressLine(title, monotonic=watch)
    line.update(Progress(done=done, total=total))
    return line


def test_before_the_first_answer_nothing_is_known(watch: Watch) -> None:
    assert begun(watch).text(Progress(done=0, total=10)) == (
        "t ░░░░░░░░░░░░░░░░░░░░░░░░ 0/10 │ success 0 timeout 0 error 0 refused 0 │ p50 - │ ETA -"
    )


def test_answers_are_counted_by_status_and_their_median_latency_shown(watch: Watch) -> None:
    line = begun(watch)
    for done, (status, latency) in enumerate(
        [("success", 5), ("error", 70), ("timeout", 3000), ("refused", 8), ("success", 6)], start=1
    ):
        watch.seconds += 2
        line.update(answered(done, status, latency))
    assert line.text(answered(5)) == (
        "t ████████████░░░░░░░░░░░░ 5/10 │ success 2 timeout 1 error 1 refused 1 │ p50 8 ms │ "
        "ETA 0:10"
    )


def test_the_median_is_that_of_the_last_thousand_answers(watch: Watch) -> None:
    line = begun(watch, total=5000)
    for done in range(1, 2001):
        line.update(answered(done, latency_ms=100 if done <= 1000 else 7, total=5000))
    assert "p50 7 ms" in line.text(answered(2000, total=5000))


def test_time_to_go_counts_only_what_this_process_has_done(watch: Watch) -> None:
    line = begun(watch, done=90, total=100)
    watch.seconds += 4
    line.update(answered(92, total=100))
    assert line.text(answered(92, total=100)).endswith("ETA 0:16")


def test_long_times_to_go_are_in_hours_minutes_and_seconds(watch: Watch) -> None:
    line = begun(watch, total=1000)
    watch.seconds += 9
    line.update(answered(1, total=1000))
    assert line.text(answered(1, total=1000)).endswith("ETA 2:29:51")


def test_a_dataset_without_episodes_divides_by_nothing(watch: Watch) -> None:
    assert "0/0" in begun(watch, total=0).text(Progress(done=0, total=0))


def test_a_line_that_is_to_fit_fits(watch: Watch) -> None:
    line = begun(watch, title="product_cartograph_v1", total=240)
    line.update(answered(120, total=240))
    progress = answered(120, total=240)
    whole = line.text(progress)
    for columns in range(1, 2 * len(whole)):
        text = line.text(progress, columns=columns)
        assert len(text) == min(len(text), columns - 1)
        assert (text == whole) == (columns > len(whole))


def test_a_narrow_line_loses_its_title_first_then_what_counts_nothing(watch: Watch) -> None:
    line = begun(watch, title="a-rather-long-title", total=240)
    line.update(answered(120, total=240))
    progress = answered(120, total=240)
    whole = line.text(progress)
    assert line.text(progress, columns=len(whole) + 1) == whole
    assert line.text(progress, columns=len(whole)) == whole.removeprefix("a-rather-long-title ")
    assert line.text(progress, columns=60) == (
        "█████░░░░░ 120/240 │ success 1 │ p50 10 ms │ ETA 0:00"
    )
    assert line.text(progress, columns=20) == "█████░░░░░ 120/240 "


def test_elsewhere_than_on_a_terminal_a_line_comes_every_ten_seconds_and_at_the_end(
    watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressLine("t", monotonic=watch) as line:
        line.update(Progress(done=0, total=10))
        for done in range(1, 8):
            watch.seconds += PLAIN_INTERVAL / 4
            line.update(answered(done))
    out, err = capsys.readouterr()
    assert out == ""
    assert [shown.split()[2] for shown in err.splitlines()] == ["0/10", "4/10", "7/10"]
    assert "\r" not in err


@pytest.mark.parametrize(("kind", "is_drawn_over"), [("xterm", True), ("dumb", False)])
def test_a_dumb_terminal_gets_lines_and_no_codes(
    watch: Watch,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    *,
    is_drawn_over: bool,
) -> None:
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressLine("t", monotonic=watch) as line:
        line.say("logged")
        line.update(Progress(done=0, total=10))
    assert ("\x1b" in capsys.readouterr().err) is is_drawn_over


def test_the_first_failure_is_named_when_it_comes(
    watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressLine("t", monotonic=watch) as line:
        line.update(Progress(done=0, total=10))
        line.update(answered(1))
        for done in (2, 3):
            line.update(replace(answered(done, "error"), failure=f"e{done}: no\n\x1b[2J"))
    assert capsys.readouterr().err.splitlines()[1] == "first failed e2: no ?[2J"


def test_what_was_drawn_last_is_not_drawn_again_at_the_end(
    watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressLine("t", monotonic=watch) as line:
        line.update(Progress(done=10, total=10))
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_that_never_began_draws_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine("t"):
        pass
    assert capsys.readouterr() == ("", "")


def test_quiet_is_quiet(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine("t", quiet=True, monotonic=watch) as line:
        line.update(Progress(done=0, total=10))
        watch.seconds += 100
        line.update(answered(1))
    assert capsys.readouterr() == ("", "")


def test_what_was_used_and_what_the_rest_will_cost_is_said(watch: Watch) -> None:
    used = UsageTally({"model": (Fraction(2), Fraction(10))})
    line = ProgressLine("t", monotonic=watch, used=used)
    line.update(Progress(done=2, total=10))
    assert "tokens" not in line.text(Progress(done=2, total=10))
    for done in (3, 4):
        calls: JsonObject = {"model": [[20, 1000, 300]]}
        line.update(replace(answered(done), used=calls))
    assert line.text(answered(4)).endswith("│ 2600 tokens │ $0.01, $0.03 to go")
    line.update(replace(answered(5), used={"other": [[20, 1, 1]]}))
    assert line.text(answered(5)).endswith("│ 2602 tokens")
