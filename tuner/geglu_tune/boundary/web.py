"""Another geglu-tune over HTTP (standard library alone)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import NamedTuple
from urllib.parse import urlsplit

from geglu_tune.errors import GegluTuneError, UsageError

TIMEOUT_S = 10.0


class Reply(NamedTuple):
    """What a server said."""

    status: int
    body: bytes
    etag: str | None


def get(url: str, most_bytes: int, *, etag: str | None = None, timeout: float = TIMEOUT_S) -> Reply:
    """The content of a URL; status 304 where it is still that of the etag. Raises as `post`."""
    headers = {"If-None-Match": etag} if etag else {}
    return _ask(urllib.request.Request(checked(url), headers=headers), most_bytes, timeout)


def post(url: str, body: bytes, token: str, *, most_bytes: int = 2**20, timeout: float = 60.0) -> Reply:
    """Send JSON.

    Raises:
        UsageError: it is no HTTP URL.
        GegluTuneError: there is no answer in time, a longer one than that, or one that refuses.
    """
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return _ask(urllib.request.Request(checked(url), data=body, headers=headers), most_bytes, timeout)


def checked(url: str) -> str:
    """Nothing but HTTP: a file:// URL would read this machine's files."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        raise UsageError(f"'{url}' is no URL of a service, such as http://tuner:8421")
    return url


def _ask(request: urllib.request.Request, most_bytes: int, timeout: float) -> Reply:
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            body = response.read(most_bytes + 1)
            if len(body) > most_bytes:
                raise GegluTuneError(f"{request.full_url} sends more than {most_bytes >> 20} MiB, so it is not used")
            return Reply(response.status, body, response.headers.get("ETag"))
    except urllib.error.HTTPError as error:
        if error.code == 304:
            return Reply(304, b"", None)
        raise GegluTuneError(f"{request.full_url} answers {error.code}: {_reason(error)}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise GegluTuneError(f"{request.full_url} cannot be reached: {reason}") from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(2**16))["error"])[:300]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return error.reason or "no reason given"
