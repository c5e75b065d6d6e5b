"""What a reading of GitHub keeps on disk: pages with their tags, and finished records."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import cast

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object, sha256_hex
from theatre.engine.errors import ParseError
from theatre.files.durable import append_durably, replace_durably, truncate_durably
from theatre.verification.errors import NoRecordError
from theatre.verification.github.rest import Answer
from theatre.verification.record_form import read_record
from theatre.verification.records import GroundTruthRecord, decode

_RECORDS = "records.jsonl"


class ReadingCache:
    """One repository's folder. A file in it is whole or not there; a torn last line is cut off.

    Of a request it keeps the URL and of an answer the entity tag, never a header that was sent.
    """

    def __init__(self, folder: Path) -> None:
        """Open a folder, making it if need be."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._records = self._read_records()

    def page(self, url: str) -> Answer | None:
        """Return the page that was kept under `url`."""
        path = self._page_path(url)
        if not path.is_file():
            return None
        kept = cast("dict[str, str | None]", parse_object(path.read_bytes()))
        return Answer(
            body=cast("str", kept["body"]).encode(), next_url=kept["next_url"], etag=kept["etag"]
        )

    def keep(self, url: str, answer: Answer) -> None:
        """Keep a page in place of the one before."""
        kept: JsonObject = {
            "body": decode(answer.body),
            "etag": answer.etag,
            "next_url": answer.next_url,
            "url": url,
        }
        replace_durably(self._page_path(url), canonical_line(kept))

    def record(self, key: str) -> GroundTruthRecord | None:
        """Return the record that was kept under `key`."""
        return self._records.get(key)

    def keep_record(self, key: str, record: GroundTruthRecord) -> None:
        """Append a record; after this returns, a power cut does not lose it."""
        line = canonical_line({"key": key, "record": record.as_document()})
        append_durably(self._folder / _RECORDS, line)
        self._records[key] = record

    def _page_path(self, url: str) -> Path:
        return self._folder / f"page-{sha256_hex(url.encode())[:32]}.json"

    def _read_records(self) -> dict[str, GroundTruthRecord]:
        path = self._folder / _RECORDS
        raw = path.read_bytes() if path.is_file() else b""
        whole = raw.rfind(b"\n") + 1
        if whole != len(raw):
            truncate_durably(path, whole)
        found = {}
        for line in raw[:whole].splitlines():
            # What an earlier form of records left behind is read again.
            with contextlib.suppress(ParseError, KeyError, NoRecordError):
                kept = parse_object(line)
                document = cast("JsonObject", kept["record"])
                found[cast("str", kept["key"])] = read_record(document)
        return found
