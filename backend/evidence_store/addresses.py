"""From `ECHELON_EVIDENCE_URL` to a folder or a bucket."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store

from backend.errors import SettingsError

CONNECT_SECONDS = 5
REQUEST_SECONDS = 60
"""For one request; a large object is sent in several."""
_RETRIES = 3
_RETRY_SECONDS = 20


def folder_of(url: str | None, home: Path) -> Path | None:
    """Return the folder that an address names, `home` for none; None for a bucket.

    SettingsError for any other address.
    """
    if url is None:
        return home
    parts = urlsplit(url)
    if parts.scheme == "s3":
        return None
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise SettingsError("expected ECHELON_EVIDENCE_URL like file:///folder, got another form")
    return Path(unquote(parts.path))


def bucket_of(url: str, *, patient: bool = True) -> S3Store:
    """Return a bucket. Who may use it and where it is, the usual `AWS_` variables say.

    One that is not `patient` tries nothing twice. SettingsError for what is no such address.
    """
    try:
        return S3Store.from_url(
            url,
            client_options={
                # Of the `AWS_` variables only this one is overruled by options that are given.
                "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true",
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "timeout": timedelta(seconds=REQUEST_SECONDS if patient else CONNECT_SECONDS),
            },
            retry_config={
                "max_retries": _RETRIES if patient else 0,
                "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
            },
        )
    except (BaseError, ValueError) as error:
        # The message may quote what the environment holds.
        raise SettingsError(
            "expected ECHELON_EVIDENCE_URL like s3://bucket/prefix and AWS_ variables that fit, "
            f"got {type(error).__name__}"
        ) from None
