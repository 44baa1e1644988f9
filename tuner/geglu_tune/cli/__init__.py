"""The command line. Commands import what they need when they run, so that `--help` is quick."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from geglu_tune.cli import bench, calibrate, doctor, explain, lookup, show, sweep, verify
from geglu_tune.cli.options import ExitStatus
from geglu_tune.errors import GegluTuneError, UsageError

# The base of the command-line parser's errors. Typer has moved it between releases, its subclass has stayed.
_ParserError: type[Exception] = typer.BadParameter.__mro__[2]


class _OneLineErrors(TyperGroup):
    """Ends with the exit status that a command returns, and tells of an error in one line."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        args = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            status = super().main(args, *rest, **{**options, "standalone_mode": False})
        except (KeyboardInterrupt, typer.Abort):
            status = ExitStatus.INTERRUPTED
        except Exception as error:
            if "--debug" in args:
                traceback.print_exc()
            message, status = _explain(error)
            print(f"error: {message}", file=sys.stderr)
        sys.exit(status)


def _explain(error: Exception) -> tuple[str, ExitStatus]:
    if isinstance(error, _ParserError):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "geglu-tune"
        text = " ".join(error.format_message().split())  # type: ignore[attr-defined]
        return f"{text.rstrip('.')} (see `{command} --help`)", ExitStatus.WRONG_USAGE
    if isinstance(error, UsageError):
        return str(error), ExitStatus.WRONG_USAGE
    if isinstance(error, GegluTuneError):
        return str(error), ExitStatus.FAILED
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} (a fault of geglu-tune; --debug shows where)", ExitStatus.FAILED


app = typer.Typer(
    name="geglu-tune",
    help="Find, keep and look up the best tiling of GEGLU kernels on an Ascend 910B4.",
    cls=_OneLineErrors,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("sweep")(sweep.sweep)
app.command("show")(show.show)
app.command("lookup")(lookup.lookup)
app.command("explain")(explain.explain)
app.command("verify")(verify.verify)
app.command("bench")(bench.bench)
app.command("calibrate")(calibrate.calibrate)
app.command("doctor")(doctor.doctor)


def main() -> NoReturn:
    app(prog_name="geglu-tune")
    raise AssertionError("the command line ends by itself")
