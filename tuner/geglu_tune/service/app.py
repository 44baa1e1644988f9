"""The service put together."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from geglu_tune import __version__
from geglu_tune.boundary.asked import TooLargeError
from geglu_tune.boundary.printable import printable
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.exchange.document import MOST_BYTES
from geglu_tune.service.api import Api
from geglu_tune.service.limits import Limits
from geglu_tune.service.metrics import Counting, Metrics
from geglu_tune.service.site import Site


def create_app(path: Path, token: str | None = None) -> FastAPI:
    """The service of a database, which need not be there yet. With a token, whoever gives it may add to it."""
    metrics = Metrics()
    app = FastAPI(
        title="geglu-tune",
        version=__version__,
        description="Tuned tilings of GEGLU and SwiGLU kernels.",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        middleware=[
            Middleware(_HeadAsGet),
            Middleware(Counting, metrics=metrics),
            Middleware(Limits, most_bytes=MOST_BYTES),
            Middleware(GZipMiddleware, minimum_size=2000, compresslevel=4),
        ],
        exception_handlers={
            UsageError: _refused(400),
            TooLargeError: _refused(404),
            GegluTuneError: _refused(503),
            RequestValidationError: _bad_question,
            HTTPException: _http_error,
            Exception: _fault,
        },
    )
    Api(path, token).add_to(app)
    Site(path).add_to(app)
    app.get("/metrics", response_class=PlainTextResponse)(metrics.show)
    return app


class _HeadAsGet:
    """FastAPI's routes know no HEAD. The server leaves out the body, as it knows what was asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        await self._app({**scope, "method": "GET"} if is_head else scope, receive, send)


def _refused(status: int) -> Callable[[Request, Any], Coroutine[Any, Any, Response]]:
    async def handle(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": printable(str(error))}, status)

    return handle


async def _bad_question(request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    name = first["loc"][-1]
    says = {"missing": f"the parameter {name} is missing", "extra_forbidden": f"unknown parameter '{name}'"}
    return JSONResponse({"error": printable(says.get(first["type"], f"{name}: {first['msg']}"))}, 400)


async def _http_error(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _fault(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "a fault of geglu-tune; its log has the details"}, 500)
