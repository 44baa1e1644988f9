"""The answers under /v1. What opens the database runs in a thread of its own; a lookup is answered at once."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from geglu_tune import __version__
from geglu_tune.boundary.asked import Filters, parse_filters
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.exchange.document import from_json, to_json
from geglu_tune.results import records
from geglu_tune.runtime.socs import DEFAULT_SOC
from geglu_tune.service.answers import Answers
from geglu_tune.store import Store
from geglu_tune.tiling import Source

PAGE = 100
LONGEST_PAGE = 1000
NO_TOKEN = "this service is read-only: it was started without GEGLU_TUNE_TOKEN"


class Api:
    """What the service knows.

    Args:
        token: who gives it may write; None lets nobody.
    """

    def __init__(self, path: Path, token: str | None) -> None:
        self.path = path
        self.answers = Answers(path)
        self._token = token

    async def tiling(self, request: Request) -> Response:
        given = _parameters(request, "kernel", "shape", "dtype", "device")
        for name in ("kernel", "shape"):
            if name not in given:
                raise UsageError(f"the parameter {name} is missing")
        answer = self.answers.answer(
            given["kernel"], given["shape"], given.get("dtype", "bf16"), given.get("device", DEFAULT_SOC)
        )
        return Response(answer, media_type="application/json")

    async def tilings(self, request: Request) -> Response:
        return await (self._take_over(request) if request.method == "POST" else run_in_threadpool(self._list, request))

    def _list(self, request: Request) -> Response:
        given = _parameters(request, "kernel", "shape", "dtype", "device", "source", "limit", "offset")
        source = given.get("source")
        if source is not None and source not in [known.value for known in Source]:
            raise UsageError(f"unknown source '{source}': choose from measured, virtual")
        with Store.read(self.path) as store:
            found = store.best(**_filters(given), source=None if source is None else Source(source))
        return _page([records.of_best(best) for best in records.in_order(found)], given)

    def trials(self, request: Request) -> Response:
        given = _parameters(request, "kernel", "shape", "dtype", "device", "limit", "offset")
        with Store.read(self.path) as store:
            found = store.all_trials(**_filters(given))
        return _page([records.of_trial(study, trial) for study, trial in found], given)

    def snapshot(self, request: Request) -> Response:
        with Store.read(self.path) as store:
            content = to_json(store.contents(only_best=True))
        etag = f'"{sha256(content).hexdigest()[:32]}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if etag in [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type="application/json", headers=headers)

    async def _take_over(self, request: Request) -> Response:
        """An export file: all of it, or nothing."""
        if self._token is None:
            return JSONResponse({"error": NO_TOKEN}, 403)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self._token.encode()):
            refusal = {"error": "the token is missing or wrong: give it as Authorization: Bearer TOKEN"}
            return JSONResponse(refusal, 401, headers={"WWW-Authenticate": "Bearer"})
        body = await request.body()
        return await run_in_threadpool(self._merge, body)

    def _merge(self, body: bytes) -> Response:
        try:
            contents = from_json(body, "the export")
        except GegluTuneError as error:
            return JSONResponse({"error": str(error)}, 422)
        with Store.open(self.path, create=True) as store:
            merged = store.merge(contents, origin="the service")
        return JSONResponse({"studies": merged.studies, "trials": merged.trials, "bests": merged.bests})

    def health(self, request: Request) -> Response:
        with Store.read(self.path):
            return JSONResponse({"status": "ok", "version": __version__, "writable": self._token is not None})


def _parameters(request: Request, *known: str) -> dict[str, str]:
    given = request.query_params
    for name in given:
        if name not in known:
            raise UsageError(f"unknown parameter '{name}': choose from {', '.join(known)}")
        if len(given.getlist(name)) > 1:
            raise UsageError(f"the parameter {name} is there twice")
    return dict(given)


def _filters(given: dict[str, str]) -> Filters:
    return parse_filters(*(given.get(name) for name in ("kernel", "dtype", "shape", "device")))


def _page(found: list[records.Record], given: dict[str, str]) -> Response:
    limit = _number(given, "limit", PAGE, 1, LONGEST_PAGE)
    offset = _number(given, "offset", 0, 0, 2**31 - 1)
    following = offset + limit if offset + limit < len(found) else None
    return JSONResponse({"total": len(found), "items": found[offset : offset + limit], "next": following})


def _number(given: dict[str, str], name: str, default: int, low: int, high: int) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and low <= int(text) <= high):
        raise UsageError(f"{name} is a whole number from {low} to {high}, not '{text}'")
    return int(text)
