"""The service put together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from geglu_tune.boundary.asked import TooLargeError
from geglu_tune.boundary.printable import printable
from geglu_tune.errors import GegluTuneError, UsageError
from geglu_tune.exchange.document import MOST_BYTES
from geglu_tune.service.api import Api
from geglu_tune.service.limits import Limits
from geglu_tune.service.metrics import Counting, Metrics
from geglu_tune.service.openapi import openapi
from geglu_tune.service.site import Site


def create_app(path: Path, token: str | None = None) -> Starlette:
    """The service of a database, which need not be there yet. With a token, whoever gives it may add to it."""
    api, site, metrics = Api(path, token), Site(path), Metrics()
    document = openapi()

    def described(request: Request) -> Response:
        return JSONResponse(document)

    routes = [
        Route("/v1/tiling", api.tiling),
        Route("/v1/tilings", api.tilings, methods=["GET", "POST"]),
        Route("/v1/trials", api.trials),
        Route("/v1/snapshot", api.snapshot),
        Route("/healthz", api.health),
        Route("/metrics", metrics.show),
        Route("/openapi.json", described),
        *site.routes,
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Counting, metrics=metrics),
            Middleware(Limits, most_bytes=MOST_BYTES),
            Middleware(GZipMiddleware, minimum_size=2000, compresslevel=4),
        ],
        exception_handlers={
            UsageError: _refused(400),
            TooLargeError: _refused(404),
            GegluTuneError: _refused(503),
            HTTPException: _http_error,
            Exception: _fault,
        },
    )


def _refused(status: int) -> Callable[[Request, Exception], Response]:
    def handle(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": printable(str(error))}, status)

    return handle


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


def _fault(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "a fault of geglu-tune; its log has the details"}, 500)
