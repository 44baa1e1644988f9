"""`geglu-tune lookup`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from geglu_kernels.specs import KERNELS
from geglu_tune.boundary.asked import parse_dtype, parse_kernel, parse_shape, parse_soc
from geglu_tune.boundary.printable import printable
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus, JsonOption
from geglu_tune.cli.say import say
from geglu_tune.paths import shipped_database_path
from geglu_tune.runtime.socs import DEFAULT_SOC
from geglu_tune.tiling import Workload

if TYPE_CHECKING:
    from geglu_tune.runtime.served import ServedTiling

"""What the library takes where no accelerator is in use, as none is here."""


def lookup(
    kernel: Annotated[str, typer.Argument(help=f"One of {', '.join(KERNELS)}.")],
    shape: Annotated[str, typer.Argument(help="Such as 8192x11008.")],
    dtype: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    device: Annotated[str, typer.Option(help="The device's SoC.")] = DEFAULT_SOC,
    as_json: JsonOption = False,
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Print the tiling that the library would answer, and why."""
    workload = Workload(parse_kernel(kernel), parse_shape(shape), parse_dtype(dtype))
    soc = parse_soc(device)

    from geglu_tune.runtime.index import Index, ask
    from geglu_tune.runtime.record import record_of

    index = Index(None if db is None else str(db))
    served = index.answer(ask(workload.kernel, workload.shape, workload.dtype, soc))
    if index.warning:
        say(f"warning: {index.warning}")
    print(json.dumps(record_of(workload, served), indent=2) if as_json else _sentence(served))
    return ExitStatus.DONE


def _sentence(served: ServedTiling) -> str:
    multibuffer = "on" if served.multibuffer else "off"
    source = f", {served.source}" if served.source else ""
    distance = f", distance {served.distance:.3g}" if served.distance else ""
    return (
        f"BLOCK_SIZE {served.block_size}, programs {served.programs}, multibuffer {multibuffer}, "
        f"form {served.form}, loop order {served.loop_order}\n"
        f"{served.origin}{source}{distance}: {served.reason}{_where(served)}"
    )


def _where(served: ServedTiling) -> str:
    if served.row is None:
        return ""
    row = served.row
    if row["database"] == shipped_database_path():
        return "\nfrom the results that come with geglu-tune"
    return f"\nfrom trial {row['trial_number']} of study {row['study_id']} in {printable(str(row['database']))}"
