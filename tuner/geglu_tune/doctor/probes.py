"""What `geglu-tune doctor` asks of a process of its own, since what it imports may fail, hang or abort."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from geglu_tune.devices.compilelog import last_line
from geglu_tune.errors import GegluTuneError

LIMIT_S = 60.0
"""A healthy probe takes 3 s; torch from a cold network drive, or an NPU that wakes up, far longer."""
_MARK = "geglu-tune doctor: "
_RUN = "import sys; sys.path[:] = filter(None, sys.path); from geglu_tune.doctor import probes; probes.{}()"


class Probe:
    """A probe at work, from construction on."""

    def __init__(self, name: str, limit: float = LIMIT_S) -> None:
        """`name` is one of the functions below; after `limit` seconds it is stopped."""
        self._limit = limit
        self._deadline = time.monotonic() + limit
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed with the probe
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUN.format(name)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # Else `import torch` would load torch_npu, and a fault of the one would be blamed on the other.
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )

    def facts(self) -> dict[str, Any]:
        """All that it reported until its end; where that was no good one, `end` says how it ended."""
        end = {}
        try:
            code = self._process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            end = {"end": f"no answer in {self._limit:g} s"}
            code = 0
        self._output.seek(0)
        text = self._output.read().decode("utf-8", "replace")
        if code:
            how = f"died of {signal.Signals(-code).name}" if code < 0 else last_line(text)
            end = {"end": how}
        reports = [line.removeprefix(_MARK) for line in text.splitlines() if line.startswith(_MARK)]
        return {key: value for report in reports for key, value in json.loads(report).items()} | end

    def close(self) -> None:
        """Stop it, with all that it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()


def compiler() -> None:
    """Compile a kernel for the virtual device, past its cache: compiler, versions, status, reason, seconds."""
    from geglu_tune.devices.virtual.compiler import Request, compile_kernel
    from geglu_tune.devices.virtual.toolchain import find_toolchain
    from geglu_tune.runtime.socs import DEFAULT_SOC

    try:
        tools = find_toolchain()
    except GegluTuneError as error:
        _report(missing=str(error))
        return
    _report(compiler=str(tools.compile), versions=tools.versions)
    start = time.monotonic()
    compiled = compile_kernel(Request("geglu_forward", "bf16", 1024, True, "tanh", "strided", False, DEFAULT_SOC))
    _report(status=compiled.status.value, reason=compiled.reason, seconds=time.monotonic() - start)


def cards() -> None:
    """Import torch, then torch_npu, and ask them: torch, cuda, torch_npu, npu, ub_bytes, ub_from; *_error if one fails.

    Each is reported as soon as it is known: what comes after may end the process.
    """
    try:
        import torch
    except Exception as error:
        _report(torch_error=_explain(error))
        return
    _report(torch=torch.__version__)
    try:
        _report(cuda=[torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())])
    except Exception as error:
        _report(cuda_error=_explain(error))
    if importlib.util.find_spec("torch_npu") is not None:
        _npus()


def _npus() -> None:
    try:
        import torch_npu

        _report(torch_npu=torch_npu.__version__)
    except Exception as error:
        _report(torch_npu_error=_explain(error))
        return
    try:
        from torch_npu import npu

        names = [str(npu.get_device_name(index)).strip() for index in range(npu.device_count())]
        _report(npu=names)
        if names:
            _ub_capacity(names[0])
    except Exception as error:
        _report(npu_error=_explain(error))


def _ub_capacity(soc: str) -> None:
    from geglu_tune.devices.measured.npu import profile_of, ub_capacity

    ub_bytes, told_by = ub_capacity(profile_of(soc))
    _report(ub_bytes=ub_bytes, ub_from=told_by)


def _explain(error: Exception) -> str:
    return f"{type(error).__name__}: {last_line(str(error))}"


def _report(**facts: object) -> None:
    print(f"\n{_MARK}{json.dumps(facts)}", flush=True)
