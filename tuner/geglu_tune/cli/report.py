"""`geglu-tune report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from geglu_tune.boundary.asked import parse_filters
from geglu_tune.boundary.packages import need
from geglu_tune.cli import options
from geglu_tune.cli.options import DbOption, DebugOption, ExitStatus
from geglu_tune.cli.say import say
from geglu_tune.errors import GegluTuneError


def report(
    file: Annotated[Path, typer.Argument(help="HTML file to write.")],
    kernel: Annotated[str | None, typer.Option(help="Only this kernel.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Only this dtype.")] = None,
    shape: Annotated[str | None, typer.Option(help="Only this shape, such as 8192x11008.")] = None,
    device: Annotated[str | None, typer.Option(help="Only this device, such as Ascend910B4.")] = None,
    db: DbOption = None,
    debug: DebugOption = False,
) -> int:
    """Write the results with their pictures into one file to send around."""
    need("report", "service", "jinja2", "matplotlib")

    from rich.console import Console

    from geglu_tune.boundary.files import write_whole
    from geglu_tune.pages.report import report as report_on
    from geglu_tune.store import Store

    wanted = parse_filters(kernel, dtype, shape, device)
    path = options.database(db)
    with Store.read(path) as store:
        bests = store.best(**wanted)
        if not bests:
            raise GegluTuneError(f"{path} has no results of what was asked for: `geglu-tune show` tells what it has")
        with Console(stderr=True).status("drawing") as status:
            page = report_on(store, bests, lambda what: status.update(f"drawing {what}"))
    write_whole(file, page.encode())
    say(f"wrote {len(bests)} studies to {file}")
    return ExitStatus.DONE
