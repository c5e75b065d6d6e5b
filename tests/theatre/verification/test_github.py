"""Merged pull requests from a server that speaks GitHub's REST, on good days and bad ones."""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import serving
from tests.theatre.verification.github_service import (
    START,
    FakeTime,
    GitHubService,
    commit,
    diff,
    pull,
)
from theatre.oracles.http_client import HttpClient
from theatre.verification.errors import RateLimitedError, RepositoryError
from theatre.verification.github.pull_requests import (
    PullRequests,
    PullRequestSelection,
    ReadingCache,
)
from theatre.verification.github.rest import GitHubRest, Pace
from theatre.verification.records import GroundTruthRecord, ground_truth_lines

TOKEN = "ghp_of_the_test"  # noqa: S105  # opens nothing
PATIENCE_SECONDS = 30.0
MERGED = [number for number in range(1, 251) if number % 5]


def read(
    service: GitHubService,
    folder: Path,
    time: FakeTime,
    *,
    longest_wait: float = 7200,
    repository: str = "o/n",
    **selection: Any,  # noqa: ANN401 - as `PullRequestSelection` takes it
) -> list[GroundTruthRecord]:
    """Read what `service` has, in a session and with a cache of its own."""
    wanted = PullRequestSelection(**{"limit": 1000, **selection})
    cache = ReadingCache(folder)

    async def reading(root: str) -> list[GroundTruthRecord]:
        pace = Pace(
            clock=lambda: time.now,
            sleep=time.sleep,
            jitter=lambda: 0.0,
            on_wait=lambda *_: None,
            longest_wait=longest_wait,
        )
        async with aclosing(HttpClient(seconds=PATIENCE_SECONDS)) as client:
            rest = GitHubRest(client, URL(root), token=TOKEN, pages=cache, pace=pace)
            return await PullRequests(rest, root, repository, cache).records(wanted)

    with serving(service.respond) as server:
        return asyncio.run(reading(f"http://127.0.0.1:{server.port}"))


def numbers(records: list[GroundTruthRecord]) -> list[int]:
    return [int(record.id) for record in records]


def test_all_merged_pull_requests_are_read_page_by_page_the_first_merged_first(
    tmp_path: Path,
) -> None:
    time = FakeTime()
    service = GitHubService(time=time)
    records = read(service, tmp_path, time)
    assert numbers(records) == MERGED
    assert records[5] == GroundTruthRecord(
        id="7",
        commit=commit(7),
        title="Change 7",
        description="",
        diff_content=diff(7),
        files_changed=("m7.py",),
        timestamp=START - timedelta(days=393),
        labels=(),
        author="ghost",
    )
    assert (records[4].description, records[4].labels) == ("Because of 6.\r\nReally.", ("api",))
    assert (len(service.requests), service.tokens) == (3 + 2 * 200, {f"Bearer {TOKEN}"})
    assert time.slept == []


def test_bad_days_cost_time_and_change_nothing(tmp_path: Path) -> None:
    time = FakeTime()
    bad_days = {
        0: "502",
        2: "cut json",
        4: "cut body",
        7: "hang up",
        9: "secondary",
        12: "too many",
        14: "503 Unavailable",
        15: "500 Broken",
        17: "bottomless",
    }
    service = GitHubService(pulls=20, time=time, bad_days=bad_days)
    calm = GitHubService(pulls=20, time=FakeTime())
    expected = read(calm, tmp_path / "calm", FakeTime())
    assert read(service, tmp_path / "bad", time) == expected
    assert sorted(time.slept) == [1, 1, 1, 1, 1, 1, 2, 7, 60]


def test_the_limit_is_waited_for_and_never_overrun(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(pulls=20, time=time, allowance=15)
    assert len(read(service, tmp_path, time, longest_wait=20_000)) == 16
    assert (service.beyond_limit, time.slept) == (0, [3600.0, 3600.0])


def test_a_limit_that_is_over_by_our_clock_is_no_busy_loop(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(pulls=1, time=time, allowance=0)
    time.now += timedelta(minutes=59, seconds=50)
    ahead = FakeTime(now=time.now + timedelta(minutes=5))
    with pytest.raises(RateLimitedError):
        read(service, tmp_path, ahead, longest_wait=60)
    assert (len(service.requests), ahead.slept) == (13, [5.0] * 12)


def test_a_wait_that_is_too_long_ends_the_reading_and_the_next_goes_on(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(pulls=20, time=time, allowance=15)
    with pytest.raises(RateLimitedError, match="what was read is kept"):
        read(service, tmp_path, time, longest_wait=60)
    asked = len(service.requests)
    time.now += timedelta(hours=2)
    resumed = read(service, tmp_path, time, longest_wait=20_000)
    whole = read(GitHubService(pulls=20, time=FakeTime()), tmp_path / "whole", FakeTime())
    assert ground_truth_lines(resumed) == ground_truth_lines(whole)
    # One page of the list and two requests a pull request, less what was kept.
    assert (asked, len(service.requests)) == (15, 15 + 1 + 2 * (16 - 7))


def test_a_torn_last_line_of_the_cache_is_read_again(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(pulls=4, time=time)
    first = read(service, tmp_path, time)
    kept = tmp_path / "records.jsonl"
    kept.write_bytes(kept.read_bytes()[:-20])
    before = len(service.requests)
    assert read(service, tmp_path, time) == first
    assert len(service.requests) - before == 1 + 2
    assert len(kept.read_bytes().splitlines()) == 4
    assert (read(service, tmp_path, time), len(service.requests) - before) == (first, 1 + 2 + 1)


def test_what_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(pulls=30, time=time)
    first = read(service, tmp_path, time)
    before = len(service.requests)
    with_other_port = read(service, tmp_path, time)
    assert with_other_port == first
    assert len(service.requests) - before == 1


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"labels": ("api",)}, [3, 6, 9, 12, 18]),
        ({"limit": 3}, [17, 18, 19]),
        ({"since": START - timedelta(days=383)}, [17, 18, 19]),
        ({"until": START - timedelta(days=397)}, [1, 2, 3]),
    ],
)
def test_labels_dates_and_a_limit_narrow_what_is_read(
    tmp_path: Path, selection: dict[str, Any], expected: list[int]
) -> None:
    time = FakeTime()
    assert (
        numbers(read(GitHubService(pulls=20, time=time), tmp_path, time, **selection)) == expected
    )


@pytest.mark.parametrize(
    ("commit_range", "expected"),
    [
        ("v241..v247", [242, 243, 244, 246, 247]),
        ("v7", [1, 2, 3, 4, 6, 7]),
        # More commits than fit on one page.
        ("v30..v240", [number for number in range(31, 241) if number % 5]),
    ],
)
def test_a_range_of_commits_narrows_what_is_read(
    tmp_path: Path, commit_range: str, expected: list[int]
) -> None:
    time = FakeTime()
    service = GitHubService(time=time)
    assert numbers(read(service, tmp_path, time, commit_range=commit_range)) == expected


@pytest.mark.parametrize("commit_range", ["v1...v2", "..v2", "v1..", "-v1", ""])
def test_what_is_no_range_of_commits_is_refused_before_a_request(
    tmp_path: Path, commit_range: str
) -> None:
    time = FakeTime()
    service = GitHubService(time=time)
    with pytest.raises(RepositoryError, match=r"expected A\.\.B, or one commit"):
        read(service, tmp_path, time, commit_range=commit_range)
    assert service.requests == []


def test_records_of_an_earlier_form_are_read_again(tmp_path: Path) -> None:
    time = FakeTime()
    first = read(GitHubService(pulls=4, time=time), tmp_path, time)
    kept = tmp_path / "records.jsonl"
    kept.write_bytes(kept.read_bytes().replace(b'"commit":', b'"was_commit":'))
    assert read(GitHubService(pulls=4, time=time), tmp_path, time) == first


def test_no_page_is_asked_for_that_can_hold_nothing_newer(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(time=time)
    assert numbers(read(service, tmp_path, time, limit=2)) == [248, 249]
    assert len(service.requests) == 1 + 2 * 2


def test_a_diff_that_github_finds_too_large_is_made_of_the_files_patches(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(pulls=1, time=time, too_large=1)
    (record,) = read(service, tmp_path, time)
    assert record.diff_content == diff(1).replace("--- /dev/null", "--- a/m1.py")


def test_a_repository_that_is_not_there_is_no_matter_of_patience(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(time=time)
    with pytest.raises(RepositoryError, match="got status 404"):
        read(service, tmp_path, time, repository="o/other")
    assert (len(service.requests), time.slept) == (1, [])


def test_a_server_that_stays_down_is_given_up(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(time=time, bad_days=dict.fromkeys(range(9), "502"))
    with pytest.raises(RepositoryError, match="got status 502 6 times"):
        read(service, tmp_path, time)
    assert time.slept == [1, 2, 4, 8, 16]


def test_a_page_that_does_not_end_is_refused_once(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(pulls=5, time=time, bad_days={0: "endless"})
    with pytest.raises(RepositoryError, match="expected a page of at most"):
        read(service, tmp_path, time)
    assert (len(service.requests), list(tmp_path.iterdir())) == (1, [])


def test_the_command_reads_github_and_writes_the_token_nowhere(tmp_path: Path) -> None:
    service = GitHubService(pulls=10, time=FakeTime())
    with serving(service.respond) as server:
        answer = forked(
            "verify",
            "--repo=https://github.com/o/n",
            "--dry-run",
            "--json",
            home=tmp_path / "home",
            more={"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": f"http://127.0.0.1:{server.port}"},
        )
    assert (answer.code, answer.document["records"]) == (0, 8)
    assert service.tokens == {f"Bearer {TOKEN}"}
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 4
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []


def test_a_next_page_elsewhere_is_not_followed_with_the_token(tmp_path: Path) -> None:
    time = FakeTime()
    service = GitHubService(time=time, next_host="127.0.0.2:1")
    with pytest.raises(RepositoryError, match="expected a page of "):
        read(service, tmp_path, time)
    assert len(service.requests) == 1


def test_the_fixture_has_unmerged_pull_requests_too() -> None:
    assert pull(5)["merged_at"] is None
