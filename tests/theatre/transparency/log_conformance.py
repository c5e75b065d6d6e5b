"""What every `LogStore` must do, whatever it writes to.

A test class for an implementation derives from `LogConformance` and says in `opened` how a log is
opened by its one writer, and in `change_a_tile` how a stranger changes what lies there. Opening it
a second time stands for a process that starts again.
"""

import asyncio
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager

import pytest

from tests.theatre.transparency.log_stage import entries, entry, signer
from theatre.engine.errors import NotFoundError
from theatre.transparency.errors import LogForkError, ProofError, QuorumError
from theatre.transparency.fsck import LogReport, check_tiles
from theatre.transparency.log import (
    Appended,
    Follower,
    LogStore,
    LogWriter,
    prove_consistency,
    prove_inclusion,
)
from theatre.transparency.merkle import verify_consistency
from theatre.transparency.notes import Checkpoint, KeyKind, SignedCheckpoint, cosign_text
from theatre.transparency.policy import Policy
from theatre.transparency.proofs import LogProof

LOG = signer("log.example/1")
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
POLICY = Policy.parse(f"log {LOG.key}\nquorum none\n".encode())


def checkpoint(data: bytes) -> Checkpoint:
    """Return what a signed checkpoint of the log says."""
    return SignedCheckpoint.verify(data, [LOG.key]).checkpoint


async def write(store: LogStore, start: int, end: int) -> Appended:
    """Append numbered entries as a writer that has just been opened."""
    writer = LogWriter(store, LOG.key, LOG.sign)
    await writer.open()
    return await writer.append(entries(start, end))


class LogConformance(ABC):
    """One log, empty at first."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[LogStore]:
        """Open the log as its one writer."""

    @abstractmethod
    async def change_a_tile(self) -> None:
        """Change what was stored of the first entry of five."""

    async def append(self, start: int, end: int) -> Appended:
        """Append numbered entries in a process's life of their own."""
        async with self.opened() as store:
            return await write(store, start, end)

    def test_every_entry_is_proved_in_every_later_checkpoint(self) -> None:
        """One batch a life of the writer: what it knows it has read."""

        async def scene() -> None:
            batches = [(0, 3), (3, 300), (300, 700)]
            signed = [(await self.append(*batch)).checkpoint for batch in batches]
            async with self.opened() as store:
                for data in signed:
                    for index in {0, 2, checkpoint(data).size - 1}:
                        proof = LogProof.parse(bytes(await prove_inclusion(store, index, data)))
                        assert proof.verify(entry(index), POLICY).checkpoint == checkpoint(data)
                        with pytest.raises(ProofError):
                            proof.verify(entry(index + 1), POLICY)
                old, new = checkpoint(signed[0]), checkpoint(signed[2])
                verify_consistency(
                    old=old.size,
                    old_root=old.root,
                    new=new.size,
                    new_root=new.root,
                    proof=await prove_consistency(store, old.size, new.size),
                )
                report = LogReport()
                tree = await check_tiles(store, new.size, report)
                assert (tree and tree.root, report.findings) == (new.root, [])
                with pytest.raises(NotFoundError):
                    await store.read("tile/0/002")

        asyncio.run(scene())

    def test_an_entry_that_is_logged_keeps_its_place(self) -> None:
        async def scene() -> None:
            first = await self.append(0, 5)
            again = await self.append(3, 7)
            assert (first.indices, again.indices, again.size) == ((0, 1, 2, 3, 4), (3, 4, 5, 6), 7)
            assert (await self.append(0, 7)).checkpoint == again.checkpoint

        asyncio.run(scene())

    def test_a_batch_with_one_entry_twice_logs_it_once(self) -> None:
        async def scene() -> None:
            async with self.opened() as store:
                writer = LogWriter(store, LOG.key, LOG.sign)
                await writer.open()
                appended = await writer.append([entry(1), entry(2), entry(1)])
                assert (appended.indices, appended.size) == ((0, 1, 0), 2)

        asyncio.run(scene())

    def test_writers_take_turns(self) -> None:
        async def scene() -> None:
            batches = [(start, start + 40) for start in range(0, 160, 40)]
            await asyncio.gather(*(self.append(*batch) for batch in batches))
            async with self.opened() as store:
                public = checkpoint(await store.read("checkpoint"))
                found = [one async for _, one in Follower().entries(store, public)]
            assert sorted(found) == sorted(entries(0, 160))

        asyncio.run(scene())

    def test_a_second_writer_that_holds_no_lock_is_refused(self) -> None:
        async def scene() -> None:
            async with self.opened() as store, self.unlocked() as other:
                await write(store, 0, 2)
                first, second = (LogWriter(one, LOG.key, LOG.sign) for one in (store, other))
                await first.open()
                await second.open()
                await first.append([entry(2)])
                with pytest.raises(LogForkError, match="expected one writer"):
                    await second.append([entry(3)])

        asyncio.run(scene())

    @abstractmethod
    def unlocked(self) -> AbstractAsyncContextManager[LogStore]:
        """Open the log without being its writer."""

    def test_a_log_whose_tiles_were_changed_signs_nothing(self) -> None:
        async def scene() -> None:
            signed = (await self.append(0, 5)).checkpoint
            await self.change_a_tile()
            with pytest.raises(LogForkError, match="with the signed root of 5 entries"):
                await self.append(5, 6)
            async with self.unlocked() as store:
                assert await store.read("checkpoint") == signed

        asyncio.run(scene())

    def test_cosignatures_are_published_with_the_checkpoint(self) -> None:
        witnessed = f"log {LOG.key}\nwitness w {WITNESS.key}\nquorum w\n"

        async def scene() -> None:
            async with self.opened() as store:
                writer = LogWriter(store, LOG.key, LOG.sign)
                await writer.open()
                await writer.append(entries(0, 3))
                line = cosign_text(
                    str(checkpoint(writer.checkpoint)), WITNESS.key, WITNESS.sign, at=1_800_000_000
                )
                policy = Policy.parse(witnessed.encode())
                proof = await prove_inclusion(store, 1, writer.checkpoint)
                with pytest.raises(QuorumError, match="of w, got cosignatures: none"):
                    proof.verify(entry(1), policy)
                cosigned = await writer.add_cosignatures([line])
                assert await store.read("checkpoint") == cosigned
                proof = await prove_inclusion(store, 1, cosigned)
                seen = proof.verify(entry(1), policy)
                assert seen.cosigned == {WITNESS.key: 1_800_000_000}

        asyncio.run(scene())
