"""The OpenAPI document: what can be asked, and what is answered."""

from __future__ import annotations

from typing import Any

from geglu_kernels.specs import DTYPE_BYTES, KERNELS
from geglu_tune import __version__
from geglu_tune.boundary.asked import SHAPE_WITH_ELEMENTS, SOC
from geglu_tune.exchange.document import Export
from geglu_tune.runtime.socs import DEFAULT_SOC
from geglu_tune.service.api import LONGEST_PAGE, PAGE
from geglu_tune.tiling import Source

_REF = "#/components/schemas/{model}"
_ERROR = {"$ref": "#/components/schemas/Error"}
_SHAPE = {"type": "string", "pattern": f"^{SHAPE_WITH_ELEMENTS}$", "example": "8192x11008"}
_DEVICE = {"type": "string", "pattern": f"^{SOC}$", "example": DEFAULT_SOC}
_MEANS = {
    400: "A parameter is unknown, missing, or makes no sense.",
    401: "The token is missing or wrong.",
    403: "The service is read-only.",
    404: "The shape fits on no device.",
    413: "The body is too long.",
    422: "The export is refused.",
    503: "The database cannot be used.",
}


def openapi() -> dict[str, Any]:
    export = Export.model_json_schema(ref_template=_REF)
    schemas = {**export.pop("$defs"), "Export": export, **_answers()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "geglu-tune", "version": __version__, "description": "Tuned tilings of GEGLU kernels."},
        "paths": {
            "/v1/tiling": {"get": _tiling()},
            "/v1/tilings": {"get": _list("The best tilings found.", source=True), "post": _post()},
            "/v1/trials": {"get": _list("Every tiling that was tried.", source=False)},
            "/v1/snapshot": {"get": _snapshot()},
            "/healthz": {"get": _plain("Whether the database can be read.", "application/json", "Health", 503)},
            "/metrics": {"get": _plain("Counts for Prometheus.", "text/plain", None)},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _tiling() -> dict[str, Any]:
    return {
        "summary": "The tiling that `geglu-tune lookup` answers, and why.",
        "parameters": [
            _parameter("kernel", {"enum": list(KERNELS)}, required=True),
            _parameter("shape", _SHAPE, required=True),
            _parameter("dtype", {"enum": list(DTYPE_BYTES), "default": "bf16"}),
            _parameter("device", {**_DEVICE, "default": DEFAULT_SOC}),
        ],
        "responses": _responses("application/json", "Answer", 400, 404),
    }


def _list(summary: str, *, source: bool) -> dict[str, Any]:
    sources = [_parameter("source", {"enum": [one.value for one in Source]})] if source else []
    return {
        "summary": summary,
        "parameters": [
            _parameter("kernel", {"enum": list(KERNELS)}),
            _parameter("shape", _SHAPE),
            _parameter("dtype", {"enum": list(DTYPE_BYTES)}),
            _parameter("device", _DEVICE),
            *sources,
            _parameter("limit", {"type": "integer", "minimum": 1, "maximum": LONGEST_PAGE, "default": PAGE}),
            _parameter("offset", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "default": 0}),
        ],
        "responses": _responses("application/json", "Page", 400, 404, 503),
    }


def _post() -> dict[str, Any]:
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/Export"}}}
    return {
        "summary": "Take over an export, all of it or nothing.",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": body},
        "responses": _responses("application/json", "Merged", 401, 403, 413, 422, 503),
    }


def _snapshot() -> dict[str, Any]:
    described = _plain("The best tilings, as an export.", "application/json", "Export", 503)
    described["parameters"] = [{"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}]
    described["responses"]["304"] = {"description": "It is still what that ETag names."}
    return described


def _plain(summary: str, media: str, schema: str | None, *errors: int) -> dict[str, Any]:
    return {"summary": summary, "responses": _responses(media, schema, *errors)}


def _responses(media: str, schema: str | None, *errors: int) -> dict[str, Any]:
    of_body = {"type": "string"} if schema is None else {"$ref": f"#/components/schemas/{schema}"}
    return {
        "200": {"description": "The answer.", "content": {media: {"schema": of_body}}},
        **{
            str(status): {"description": _MEANS[status], "content": {"application/json": {"schema": _ERROR}}}
            for status in errors
        },
    }


def _parameter(name: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    typed = schema if "type" in schema else {"type": "string", **schema}
    return {"name": name, "in": "query", "required": required, "schema": typed}


def _answers() -> dict[str, Any]:
    number, integer, text = {"type": "number"}, {"type": "integer"}, {"type": "string"}

    def optional(schema: dict[str, Any]) -> dict[str, Any]:
        return {"anyOf": [schema, {"type": "null"}]}

    answer = {
        **{"kernel": text, "shape": text, "n": integer, "dtype": text, "device": text, "block_size": integer},
        **{"programs": integer, "multibuffer": {"type": "boolean"}, "form": text, "loop_order": text},
        **{"origin": {"enum": ["exact", "nearest", "default"]}, "source": optional(text), "time_us": optional(number)},
        **{"tuned_n": optional(integer), "distance": optional(number), "reason": text},
        "row": optional({"type": "object"}),
    }
    page = {"total": integer, "items": {"type": "array", "items": {"type": "object"}}, "next": optional(integer)}
    return {
        "Answer": _object(answer),
        "Page": _object(page),
        "Merged": _object({"studies": integer, "trials": integer, "bests": integer}),
        "Health": _object({"status": text, "version": text, "writable": {"type": "boolean"}}),
        "Error": _object({"error": text}),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
