"""Compiled programs on disk, by the hash of all that they depend on; safe for many processes.

A cache that cannot be read or written costs a compile and nothing else.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from dataclasses import asdict, fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, get_args

import platformdirs

from geglu_tune.devices.profiles import architecture
from geglu_tune.devices.virtual import compiler
from geglu_tune.devices.virtual.compiler import Compiled, Request, compile_kernel
from geglu_tune.devices.virtual.model import library, program, reader
from geglu_tune.devices.virtual.toolchain import find_toolchain
from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.tiling import Status

_NODES = {kind.__name__: kind for kind in (program.Program, program.Argument, *get_args(program.Node))}
REMEMBERED = 256
"""Programs that a process keeps at hand: far more than one kernel and dtype has, and little memory."""
_KEPT = (Status.OK, Status.UB_OVERFLOW)
"""Verdicts that a second try would repeat; any other may be the fault of the machine: a full disk, a variable."""


def program_hash(compiled: program.Program) -> str:
    """Hash of a program: two requests with one hash are the same machine code."""
    return hashlib.sha256(json.dumps(_encode(compiled)).encode()).hexdigest()[:16]


@lru_cache(maxsize=REMEMBERED)
def cached_compile(request: Request) -> Compiled:
    """compile_kernel, remembered in this process and on disk."""
    entry = folder() / f"{_key(request)}.json.gz"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, EOFError, zlib.error):
        return _decode_compiled(json.loads(gzip.decompress(entry.read_bytes())))
    compiled = compile_kernel(request)
    if compiled.status in _KEPT:
        with contextlib.suppress(OSError):
            _write(entry, gzip.compress(json.dumps(_encode_compiled(compiled)).encode(), compresslevel=4, mtime=0))
    return compiled


def folder() -> Path:
    """Where the programs are kept."""
    return Path(platformdirs.user_cache_dir("geglu-tune")) / "programs"


def _key(request: Request) -> str:
    asked = {**asdict(request), "soc": architecture(request.soc)}
    parts = [asked, kernel_hash(request.kernel), find_toolchain().versions, _reader_hash()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@cache
def _reader_hash() -> str:
    """A changed reader reads programs anew."""
    sources = (Path(module.__file__ or "").read_bytes() for module in (compiler, library, program, reader))
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]


def _write(path: Path, content: bytes) -> None:
    """Write whole or not at all: another process may be reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _encode_compiled(compiled: Compiled) -> dict[str, Any]:
    return {
        "status": compiled.status.value,
        "reason": compiled.reason,
        "notes": list(compiled.notes),
        "program": _encode(compiled.program),
    }


def _decode_compiled(entry: dict[str, Any]) -> Compiled:
    return Compiled(Status(entry["status"]), entry["reason"], tuple(entry["notes"]), _decode(entry["program"]))


def _encode(value: Any) -> Any:
    """Nodes become [name, field, ...], tuples ["", item, ...]."""
    if is_dataclass(value):
        return [type(value).__name__, *(_encode(getattr(value, field.name)) for field in fields(value))]
    if isinstance(value, tuple):
        return ["", *map(_encode, value)]
    return value


def _decode(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    name, *rest = value
    decoded = tuple(map(_decode, rest))
    return _NODES[name](*decoded) if name else decoded
