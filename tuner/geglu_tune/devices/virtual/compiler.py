"""From a kernel and a tiling to the compiler's verdict: the final HIVM program, or why there is none.

Triton source -> TTIR -> linalg (triton-ascend, in this process) -> HIVM (bishengir-compile) -> generic MLIR
(bishengir-opt) -> Program. bishengir-compile then looks for CANN's assembler and fails where there is none; the
program it saved before is all that is needed here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from geglu_kernels.grid import needs_int64
from geglu_kernels.specs import KERNELS
from geglu_tune.devices.compilelog import last_line, ub_overflow
from geglu_tune.devices.virtual.model.program import Program, UnknownOperationError
from geglu_tune.devices.virtual.model.reader import read_program
from geglu_tune.devices.virtual.toolchain import find_toolchain
from geglu_tune.errors import GegluTuneError
from geglu_tune.tiling import Status, Tiling, Workload

COMPILE_TIMEOUT_S = 60.0
"""A healthy compile takes a fifth of a second."""

_LOG_END = 2**18
"""Bytes of a compiler's log that are kept of either end."""
_CHUNK = 2**16
_LEAST_ROOM = 2**20

POINTERS = {"bf16": "*bf16", "fp16": "*fp16", "fp32": "*fp32"}
"""Triton's types of tensors by dtype."""

_HIVM = "module.hivm.opt.mlir"
"""The final program, among what bishengir-compile saves."""

_RETRY = re.compile(r"\[NOTE\] .*?automatically set (enable-[\w-]+) to false and retrying")


@dataclass(frozen=True, slots=True)
class Request:
    """All that a compilation depends on. The number of elements and of programs is not among it."""

    kernel: str
    dtype: str
    block_size: int
    multibuffer: bool
    form: str
    loop_order: str
    int64: bool
    soc: str

    @classmethod
    def of(cls, workload: Workload, tiling: Tiling, soc: str) -> Request:
        """What to compile to launch a tiling on a workload."""
        return cls(
            kernel=workload.kernel,
            dtype=workload.dtype,
            block_size=tiling.block_size,
            multibuffer=tiling.multibuffer,
            form=tiling.form,
            loop_order=tiling.loop_order,
            int64=needs_int64(workload.n, tiling.block_size, tiling.programs),
            soc=soc,
        )


@dataclass(frozen=True, slots=True)
class Compiled:
    """The verdict on a request."""

    status: Status
    reason: str = ""
    notes: tuple[str, ...] = ()
    program: Program | None = None
    """Set exactly where status is ok."""


def compile_kernel(request: Request, function: Any = None) -> Compiled:
    """Compile for real; never raises for what a compiler does, and kills one that hangs.

    Raises GegluTuneError for what is no verdict on the request: there is no compiler, or no room on the disk.

    `function` is a Triton function to compile in place of the kernel, with the same arguments.
    """
    spec = KERNELS[request.kernel]
    constants = {"BLOCK_SIZE": request.block_size, "FORM": request.form, "LOOP_ORDER": request.loop_order}
    pointer = POINTERS[request.dtype]
    signature = {f"{tensor}_ptr": pointer for tensor in (*spec.inputs, *spec.outputs)}
    signature["n"] = "i64" if request.int64 else "i32"
    return compile_function(
        function or spec.triton_function(), signature, constants, soc=request.soc, multibuffer=request.multibuffer
    )


def compile_function(
    function: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    *,
    soc: str,
    multibuffer: bool,
    attributes: Any = None,
) -> Compiled:
    """Compile any Triton function, as compile_kernel does.

    Args:
        signature: the type of each argument (see POINTERS).
        constants: the value of each constexpr, and of each argument that is compiled in.
        attributes: Triton's descriptor of what is known of the arguments, such as which are multiples of 16.
    """
    source = _Source(function, dict(signature), dict(constants), attributes)
    try:
        with tempfile.TemporaryDirectory(prefix="geglu-tune-") as folder:
            compiled = _compile_in(Path(folder), source, soc, multibuffer)
            if compiled.status is not Status.OK:
                _check_room(folder)
            return compiled
    except OSError as error:
        raise GegluTuneError(f"cannot compile in {tempfile.gettempdir()}: {error.strerror}; set TMPDIR") from error


class _Source(NamedTuple):
    """What Triton compiles."""

    function: Any
    signature: dict[str, str]
    constants: dict[str, Any]
    attributes: Any


def _compile_in(folder: Path, source: _Source, soc: str, multibuffer: bool) -> Compiled:
    try:
        linalg = _lower_to_linalg(source, soc)
    except Exception as error:  # triton raises whatever it likes
        return Compiled(Status.COMPILE_FAILED, f"triton-ascend: {last_line(str(error))}")
    try:
        return _compile_linalg(linalg, soc, multibuffer, folder)
    except UnknownOperationError as error:
        return Compiled(Status.COMPILE_FAILED, f"{error}{_place_of(error.operation, source, soc, multibuffer)}")


def _place_of(operation: str, source: _Source, soc: str, multibuffer: bool) -> str:
    """Where in the Triton source an operation comes from: compiled once more, with line numbers kept."""
    with tempfile.TemporaryDirectory(prefix="geglu-tune-") as folder, _with_line_numbers():
        path = Path(folder) / "kernel.mlir"
        path.write_text(_lower_to_linalg(source, soc), "utf-8")
        hivm = Path(folder) / "temps" / _HIVM
        _run([*_compile_command(path, soc, multibuffer), "--enable-debug-info"])
        generic = _to_generic(hivm, Path(folder), "--mlir-print-debuginfo")[1] if hivm.exists() else None
        text = generic.read_text("utf-8") if generic and generic.exists() else ""
    used = re.search(rf"^(?!.*sym_name).*[@\"]{re.escape(operation)}\b.*loc\((#loc\d*)\)$", text, re.MULTILINE)
    found = re.search(rf'^{used[1]} = loc\("(.*?)":(\d+):', text, re.MULTILINE) if used else None
    return f" ({Path(found[1]).name}, line {found[2]})" if found else ""


@contextlib.contextmanager
def _with_line_numbers() -> Iterator[None]:
    """Have triton-ascend keep the places in the source."""
    name = "TRITON_DISABLE_LINE_INFO"
    before = os.environ.get(name)
    os.environ[name] = "false"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _check_room(folder: str) -> None:
    """A compiler that runs out of room fails as one that is asked for too much: it is no verdict on the tiling."""
    if shutil.disk_usage(folder).free < _LEAST_ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _lower_to_linalg(source: _Source, soc: str) -> str:
    """Lower the function as triton-ascend does on a card, with no card and no torch."""
    from triton._C.libtriton import ir
    from triton.backends.ascend.compiler import AscendBackend, _parse_linalg_metadata, make_ttir, ttir_to_linalg
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource

    ast = ASTSource(source.function, source.signature, source.constants, source.attributes)
    target = GPUTarget("npu", soc, 0)
    backend = AscendBackend(target)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    module = ast.make_ir(options, backend.get_codegen_implementation(), backend.get_module_map(), context)
    metadata = {"target": target, **options.__dict__}
    linalg = ttir_to_linalg(make_ttir(module, metadata, options), metadata, options, named_ops=True)
    text: str = _parse_linalg_metadata(linalg, metadata)[0]
    return text


def _compile_linalg(linalg: str, soc: str, multibuffer: bool, folder: Path) -> Compiled:
    source = folder / "kernel.mlir"
    source.write_text(linalg, "utf-8")
    code, log = _run(_compile_command(source, soc, multibuffer))
    notes = tuple(f"{option} off: UB overflow" for option in _RETRY.findall(log))
    if code is None:
        return Compiled(Status.TIMEOUT, f"bishengir-compile took over {COMPILE_TIMEOUT_S:.0f} s", notes)
    hivm = folder / "temps" / _HIVM
    if hivm.exists():
        return _read_hivm(hivm, folder, notes)
    if overflow := ub_overflow(log):
        return Compiled(Status.UB_OVERFLOW, overflow, notes)
    if code < 0:
        return Compiled(Status.CRASHED, f"bishengir-compile died of {signal.Signals(-code).name}", notes)
    return Compiled(Status.COMPILE_FAILED, f"bishengir-compile: {last_line(log)}", notes)


def _read_hivm(hivm: Path, folder: Path, notes: tuple[str, ...]) -> Compiled:
    """Raises UnknownOperationError where the program cannot be read."""
    (code, log), generic = _to_generic(hivm, folder)
    if code != 0:
        return Compiled(Status.COMPILE_FAILED, f"bishengir-opt: {last_line(log)}", notes)
    try:
        return Compiled(Status.OK, notes=notes, program=read_program(generic.read_text("utf-8")))
    except UnknownOperationError:
        raise
    except Exception as error:  # what is no program at all fails anywhere
        why = f"{type(error).__name__}: {last_line(str(error))}"
        return Compiled(Status.COMPILE_FAILED, f"the compiler's program cannot be read ({why})", notes)


def _compile_command(source: Path, soc: str, multibuffer: bool) -> list[str]:
    folder = source.parent
    return [
        str(find_toolchain().compile),
        str(source),
        f"--target={soc}",
        f"--enable-auto-multi-buffer={multibuffer}",
        "--enable-auto-bind-sub-block=True",
        "--enable-hfusion-compile=true",
        "--enable-hivm-compile=true",
        "--enable-triton-kernel-compile=true",
        f"--save-temps={folder / 'temps'}",
        f"-o={folder / 'kernel.o'}",
    ]


def _to_generic(hivm: Path, folder: Path, *options: str) -> tuple[tuple[int | None, str], Path]:
    """Rewrite to generic MLIR, affine maps lowered: xDSL cannot parse semi-affine ones."""
    generic = folder / "generic.mlir"
    passes = ["--lower-affine", "--canonicalize", "--cse", "--mlir-print-op-generic", *options]
    return _run([str(find_toolchain().opt), str(hivm), *passes, f"-o={generic}"]), generic


def _run(command: list[str]) -> tuple[int | None, str]:
    """Exit status (None: killed for taking too long) and what was printed. Kills the whole process group."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise GegluTuneError(f"{command[0]} does not run ({error.strerror}): install the compilers again") from error
    deadline = time.monotonic() + COMPILE_TIMEOUT_S
    with process:
        assert process.stdout is not None
        log, ended = _ends_of(process.stdout, deadline)
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()) if ended else 0.0)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, log
    return process.returncode, log


def _ends_of(stream: IO[bytes], deadline: float) -> tuple[str, bool]:
    """The beginning and the end of what is printed until then, however much it is; and whether that was all."""
    head, tail, ended = b"", b"", False
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not ended and selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(stream.fileno(), _CHUNK)
            ended = not chunk
            room = _LOG_END - len(head)
            head, tail = head + chunk[:room], (tail + chunk[room:])[-_LOG_END:]
    return (head + tail).decode("utf-8", "replace"), ended
