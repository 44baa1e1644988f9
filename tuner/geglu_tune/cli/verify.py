"""`geglu-tune verify`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from geglu_kernels.specs import DEFAULT_KERNELS, DTYPE_BYTES
from geglu_tune.boundary.asked import parse_dtype, parse_kernel
from geglu_tune.cli.options import DebugOption, ExitStatus, JsonOption
from geglu_tune.cli.say import say
from geglu_tune.devices import resolve

if TYPE_CHECKING:
    from geglu_tune.verify.verifying import Finding, Opener

_SEED = 0


def verify(
    kernel: Annotated[
        list[str] | None, typer.Option(help="Only this kernel (default: GEGLU's both); an MLP needs both of a kind.")
    ] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="bf16, fp16 or fp32 (default: all).")] = None,
    device: Annotated[str, typer.Option(help="auto, npu:0, cuda:0 or virtual:Ascend910B4.")] = "auto",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Tell how far every form of the kernels is from the truth, and an MLP with it from PyTorch's eager one.

    Ends with status 1 where a tensor is further than it may be.
    """
    kernels = list(dict.fromkeys(map(parse_kernel, kernel or DEFAULT_KERNELS)))
    dtypes = list(dict.fromkeys(map(parse_dtype, dtype or DTYPE_BYTES)))
    opener, name = _opener(device)

    from geglu_tune.verify.verifying import verify as findings_of

    findings = list(_shown(findings_of(opener, kernels, dtypes, _SEED)))
    if as_json:
        print(json.dumps([_record(finding, name) for finding in findings], indent=2))
    else:
        from geglu_tune.cli import verify_text

        verify_text.print_findings(findings, name)
    wrong = sum(not finding.deviation.ok for finding in findings)
    if wrong:
        say(f"error: {wrong} of {len(findings)} tensors are further off than they may be")
    return ExitStatus.FAILED if wrong else ExitStatus.DONE


def _opener(spec: str) -> tuple[Opener, str]:
    """What computes, and what to call it."""
    from geglu_tune.verify.computing import on_card, on_virtual

    kind, name = resolve(spec)
    if kind == "virtual":
        from geglu_tune.devices.profiles import find_profile
        from geglu_tune.devices.virtual.toolchain import find_toolchain

        find_toolchain()
        profile = find_profile(name)
        return partial(on_virtual, profile.device), f"{profile.device.soc}, virtual"
    from geglu_tune.devices.measured.opening import open_accelerator

    accelerator = open_accelerator(kind, int(name))
    return partial(on_card, accelerator.place, accelerator.identity.device), accelerator.identity.device.soc


def _shown(findings: Iterable[Finding]) -> Iterator[Finding]:
    for finding in findings:
        if sys.stderr.isatty():
            print(f"\r\x1b[Kverifying {finding.dtype} {finding.form}", end="", file=sys.stderr, flush=True)
        yield finding
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _record(finding: Finding, device: str) -> dict[str, object]:
    record = {"device": device, **asdict(finding)}
    deviation = record.pop("deviation")
    assert isinstance(deviation, dict)
    return {**record, **deviation, "ok": finding.deviation.ok}
