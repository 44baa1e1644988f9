"""The answers under /v1. What opens the database runs in a thread of its own; a lookup is answered at once."""

from __future__ import annotations

import asyncio
import hmac
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from geglu_tune import __version__
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.exchange.document import Export, from_json, to_json
from geglu_tune.results import records
from geglu_tune.service.answers import Answers
from geglu_tune.service.schemas import Answer, Error, Health, Page, TilingAsked, TilingsAsked, TrialsAsked
from geglu_tune.store import BestRecord, Store, StudyRecord, TrialRecord
from geglu_tune.store.merging import Merged

NO_TOKEN = "this service is read-only: it was started without GEGLU_TUNE_TOKEN"
WRONG_TOKEN = "the token is missing or wrong: give it as Authorization: Bearer TOKEN"

_REFUSED: dict[int | str, dict[str, Any]] = {"4XX": {"model": Error, "description": "What is wrong with the request."}}
_UNREADABLE: dict[int | str, dict[str, Any]] = {503: {"model": Error, "description": "The database cannot be used."}}
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "It is still what that ETag names."}}
# Named and not given as a parameter, which FastAPI would read before it asks for the token.
_EXPORT = {"$ref": f"#/components/schemas/{Export.__name__}"}
_EXPORT_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _EXPORT}}}}


async def _once(request: Request) -> None:
    for name in request.query_params:
        if len(request.query_params.getlist(name)) > 1:
            raise UsageError(f"the parameter {name} is there twice")


class Api:
    """What the service knows.

    Args:
        token: who gives it may write; None lets nobody.
    """

    def __init__(self, path: Path, token: str | None) -> None:
        self.path = path
        self.answers = Answers(path)
        self._token = token
        self._one_at_a_time = asyncio.Lock()

    def add_to(self, app: FastAPI) -> None:
        def get(path: str, endpoint: Any, answer: Any, *responses: dict[int | str, dict[str, Any]]) -> None:
            app.get(
                path,
                response_model=answer,
                responses={status: what for some in responses for status, what in some.items()},
                dependencies=[Depends(_once)],
            )(endpoint)

        get("/v1/tiling", self.tiling, Answer, _REFUSED)
        get("/v1/tilings", self.tilings, Page, _REFUSED, _UNREADABLE)
        app.post(
            "/v1/tilings",
            response_model=Merged,
            responses=_REFUSED | _UNREADABLE,
            dependencies=[Depends(self._check_token)],
            openapi_extra=_EXPORT_BODY,
        )(self.take_over)
        get("/v1/trials", self.trials, Page, _REFUSED, _UNREADABLE)
        get("/v1/snapshot", self.snapshot, Export, _UNCHANGED, _UNREADABLE)
        get("/healthz", self.health, Health, _UNREADABLE)

    async def tiling(self, asked: Annotated[TilingAsked, Query()]) -> Response:
        """The tiling that `geglu-tune lookup` answers, and why."""
        answer = self.answers.answer(asked.kernel, asked.shape, asked.dtype, asked.device)
        return Response(answer, media_type="application/json")

    def tilings(self, asked: Annotated[TilingsAsked, Query()]) -> Response:
        """The best tilings found."""

        def question(store: Store) -> tuple[int, list[BestRecord]]:
            wanted, source = asked.filters, asked.source
            bests = store.best(**wanted, source=source, limit=asked.limit, offset=asked.offset)
            return store.count_best(**wanted, source=source), bests

        total, bests = Store.ask(self.path, question)
        return _page(total, [records.of_best(best) for best in bests], asked)

    def trials(self, asked: Annotated[TrialsAsked, Query()]) -> Response:
        """Every tiling that was tried."""

        def question(store: Store) -> tuple[int, list[tuple[StudyRecord, TrialRecord]]]:
            trials = store.all_trials(**asked.filters, limit=asked.limit, offset=asked.offset)
            return store.count_trials(**asked.filters), trials

        total, trials = Store.ask(self.path, question)
        return _page(total, [records.of_trial(study, trial) for study, trial in trials], asked)

    def snapshot(self, if_none_match: Annotated[str, Header()] = "") -> Response:
        """The best tilings, as an export."""
        content = to_json(Store.ask(self.path, lambda store: store.contents(only_best=True)))
        etag = f'"{sha256(content).hexdigest()[:32]}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if etag in [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type="application/json", headers=headers)

    async def _check_token(
        self, given: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]
    ) -> None:
        if self._token is None:
            raise HTTPException(403, NO_TOKEN)
        if given is None or not hmac.compare_digest(given.credentials.strip().encode(), self._token.encode()):
            raise HTTPException(401, WRONG_TOKEN, {"WWW-Authenticate": "Bearer"})

    async def take_over(self, request: Request) -> Response:
        """Take over an export, all of it or nothing."""
        async with self._one_at_a_time:  # each may hold a body and all that is read from it
            body = await request.body()
            return await run_in_threadpool(self._merge, body)

    def _merge(self, body: bytes) -> Response:
        try:
            contents = from_json(body, "the export")
        except GegluTuneError as error:
            raise HTTPException(422, str(error)) from error
        with Store.open(self.path, create=True) as store:
            merged = store.merge(contents, origin="the service")
        return JSONResponse({"studies": merged.studies, "trials": merged.trials, "bests": merged.bests})

    def health(self) -> Response:
        """Whether the database can be read."""
        Store.ask(self.path, Store.count_trials)
        return JSONResponse({"status": "ok", "version": __version__, "writable": self._token is not None})


def _page(total: int, items: list[records.Record], asked: TrialsAsked) -> Response:
    following = asked.offset + asked.limit
    return JSONResponse({"total": total, "items": items, "next": following if following < total else None})
