"""The audit log breaks where anything in it is changed, and says at which line."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from theatre.axion.cli import cli
from theatre.axion.common.canonical_json import canonical_line
from theatre.axion.common.hashing import Document, hash_json
from theatre.axion.common.schema_load import violations
from theatre.axion.kernel.audit_log import AuditLog, LogicalClock, verify_lines, verify_log
from theatre.axion.kernel.invariants import Witness
from theatre.engine.audit_chain import ChainHead
from theatre.engine.errors import ChainBrokenError

Forgery = Callable[[list[bytes]], list[bytes]]


def lines_of(seed: str = "0", count: int = 6) -> list[bytes]:
    stream = io.BytesIO()
    clock = LogicalClock()
    clock.begin(3)
    log = AuditLog(stream, seed=seed, clock=clock)
    for number in range(count):
        witness = Witness("I1", "too few", {"number": number}).as_document()
        log.append("POLICY_DECISION", notes=f"entry {number}", witnesses=[witness])
    return stream.getvalue().splitlines(keepends=True)


def edited(line: bytes, **changes: object) -> bytes:
    """Return an entry with other members, its own hash made to fit again."""
    entry = {**json.loads(line), **changes}
    entry.pop("entry_hash")
    return canonical_line({**entry, "entry_hash": hash_json(entry)})


def test_an_honest_log_verifies_and_every_entry_keeps_the_schema() -> None:
    lines = lines_of()
    entries: list[Document] = [json.loads(line) for line in lines]
    assert verify_lines(lines) == ChainHead(6, entries[-1]["entry_hash"])
    assert [violations("audit_entry", entry) for entry in entries] == [[]] * 6
    assert entries[0]["prev_entry_hash"] == "0" * 64
    assert [entry["timestamp_ms"] for entry in entries] == list(range(3_000_001, 3_000_007))


@pytest.mark.parametrize(
    ("forge", "line"),
    [
        (lambda x: [*x[:2], x[2].replace(b"entry 2", b"entry 7"), *x[3:]], 3),
        (lambda x: [*x[:2], edited(x[2], timestamp_ms=1), *x[3:]], 4),
        (lambda x: [*x[:2], x[3], x[2], *x[4:]], 3),
        (lambda x: [*x[:2], *x[3:]], 3),
        (lambda x: x[1:], 1),
        (lambda x: [*x[:2], x[1], *x[2:]], 3),
        (lambda x: [*x[:3], *lines_of("another run")[3:]], 4),
        (lambda x: [*x[:5], x[5][:-1]], 6),
        (lambda x: [*x[:5], x[5][:40]], 6),
        (lambda x: [*x[:5], b"\n"], 6),
        (lambda x: [x[0].replace(b":", b": ", 1), *x[1:]], 1),
        (lambda x: [x[0].replace(b'{"', b'{"a":1,"', 1), *x[1:]], 1),
        (lambda x: [x[0].replace(b'"event"', b'"event":"FATAL_HANG","event"', 1), *x[1:]], 1),
        (lambda x: [edited(x[0], event="ALL_FINE"), *x[1:]], 1),
    ],
)
def test_a_forged_log_breaks_at_its_line(forge: Forgery, line: int) -> None:
    with pytest.raises(ChainBrokenError) as broken:
        verify_lines(forge(lines_of()))
    assert broken.value.line == line


def test_every_single_byte_counts() -> None:
    whole = b"".join(lines_of(count=1))
    for place in range(len(whole)):
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        with pytest.raises(ChainBrokenError):
            verify_lines(changed.splitlines(keepends=True))


def test_a_cut_tail_shows_only_against_the_head_or_the_count(tmp_path: Path) -> None:
    lines, path = lines_of(), tmp_path / "cut.jsonl"
    whole = verify_lines(lines)
    path.write_bytes(b"".join(lines[:4]))
    assert verify_log(path).length == 4
    with pytest.raises(ChainBrokenError, match="expected 6 entries, got 4"):
        verify_log(path, expected_count=whole.length)
    with pytest.raises(ChainBrokenError, match=f"expected the head {whole.entry_hash}"):
        verify_log(path, expected_head=whole.entry_hash)


def test_the_command_says_valid_with_0_and_broken_with_2(tmp_path: Path) -> None:
    lines, path = lines_of(), tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(lines))
    head = verify_lines(lines)
    command = ["verify_audit", "--path", str(path)]
    said = CliRunner().invoke(cli, command)
    assert (said.exit_code, said.output) == (
        0,
        f"valid: 6 entries, head {head.entry_hash} (unanchored: a cut tail cannot be seen)\n",
    )
    anchored = [*command, "--expect-head", head.entry_hash, "--expect-count", "6"]
    assert CliRunner().invoke(cli, anchored).output == f"valid: 6 entries, head {head.entry_hash}\n"
    path.write_bytes(b"".join(lines[1:]))
    said = CliRunner().invoke(cli, command)
    assert said.exit_code == 2
    assert said.stderr.startswith("broken at line 1: line 1: expected prev_entry_hash 0000")
