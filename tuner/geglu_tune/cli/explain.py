"""`geglu-tune explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geglu_kernels.specs import KERNELS, LOOP_ORDERS
from geglu_tune.boundary.asked import parse_dtype, parse_kernel, parse_shape
from geglu_tune.boundary.files import write_whole
from geglu_tune.boundary.packages import need
from geglu_tune.cli.options import DebugOption, ExitStatus, JsonOption, L2Option
from geglu_tune.cli.say import say
from geglu_tune.errors import UsageError
from geglu_tune.tiling import L2, Device, Workload

if TYPE_CHECKING:
    from geglu_tune.devices.virtual.explain.explanation import Explanation, Refusal


def explain(
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help=f"One of {', '.join(KERNELS)}.")],
    dtype: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    block_size: Annotated[
        int | None, typer.Option(min=1, help="Elements a tile (default: what Liger's formula gives).")
    ] = None,
    shape: Annotated[str, typer.Option(help="Such as 8192x11008.")] = "65536x11008",
    programs: Annotated[
        int | None, typer.Option(min=1, help="Grid size (default: one a vector core, or a tile).")
    ] = None,
    form: Annotated[
        str | None, typer.Option(help="How the kernel's arithmetic is written (default: as in Liger-Kernel).")
    ] = None,
    loop_order: Annotated[str, typer.Option(help="strided or contiguous.")] = LOOP_ORDERS[0],
    no_multibuffer: Annotated[bool, typer.Option("--no-multibuffer", help="One buffer a tile.")] = False,
    device: Annotated[str, typer.Option(help="auto or virtual:Ascend910B4.")] = "auto",
    l2: L2Option = L2.WARM,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Chrome trace; ui.perfetto.dev opens it.")
    ] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the timeline of three tiles.")] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Explain a tiling by its compiled program: UB map, busy pipes, critical chain, and why it is slow or fast.

    Ends with status 3 where the tiling does not compile.
    """
    workload = Workload(parse_kernel(kernel), parse_shape(shape), parse_dtype(dtype))
    if png is not None:
        need("--png", "plot", "matplotlib")

    from rich.console import Console

    from geglu_tune.devices.virtual.explain import explanation as explaining

    target = _virtual_device(device)
    tiling = explaining.tiling_of(
        workload,
        target,
        block_size=block_size,
        programs=programs,
        multibuffer=not no_multibuffer,
        form=form,
        loop_order=loop_order,
    )
    with Console(stderr=True).status("compiling"):
        found = explaining.explain(target.soc, workload, tiling, l2)
        largest = explaining.largest_block(found) if isinstance(found, explaining.Refusal) else None
    if isinstance(found, explaining.Refusal):
        _print_refusal(found, largest, as_json)
        return ExitStatus.NO_VALID_TILING
    if trace is not None:
        _write_trace(found, trace)
    if png is not None:
        _write_png(found, png)
    _print_explanation(found, as_json)
    return ExitStatus.DONE


def _virtual_device(spec: str) -> Device:
    """The virtual SoC that --device names. Raises UsageError for a card: its driver gives no program to look into."""
    from geglu_tune.devices import resolve
    from geglu_tune.devices.profiles import find_profile
    from geglu_tune.runtime.socs import DEFAULT_SOC

    kind, name = resolve(spec)
    if kind != "virtual":
        raise UsageError(f"device {spec}: explain looks into the virtual device; use --device virtual:{DEFAULT_SOC}")
    return find_profile(name).device


def _print_refusal(refusal: Refusal, largest: int | None, as_json: bool) -> None:
    from geglu_tune.cli import explain_text
    from geglu_tune.devices.virtual.explain import document

    if as_json:
        print(json.dumps(document.of_refusal(refusal, largest), indent=2))
    else:
        explain_text.print_refusal(refusal, largest)


def _print_explanation(explanation: Explanation, as_json: bool) -> None:
    from geglu_tune.cli import explain_text
    from geglu_tune.devices.virtual.explain import document

    if as_json:
        print(json.dumps(document.of_explanation(explanation), indent=2))
    else:
        explain_text.print_explanation(explanation)


def _write_trace(explanation: Explanation, path: Path) -> None:
    from geglu_tune.devices.virtual.explain.chrometrace import chrome_trace

    _write(path, json.dumps(chrome_trace(explanation.asked)).encode())


def _write_png(explanation: Explanation, path: Path) -> None:
    from geglu_tune.devices.virtual.explain.plot import draw

    _write(path, draw(explanation.asked))


def _write(path: Path, content: bytes) -> None:
    write_whole(path, content)
    say(f"wrote {path}")
