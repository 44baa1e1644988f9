"""The command line. Commands import what they need when they run, so that `--help` is quick."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from geglu_tune import __version__
from geglu_tune.cli import (
    bench,
    calibrate,
    doctor,
    explain,
    export,
    importing,
    lookup,
    merge,
    pull,
    push,
    report,
    serve,
    show,
    sweep,
    verify,
)
from geglu_tune.cli.options import ExitStatus
from geglu_tune.cli.say import say
from geglu_tune.errors import GegluTuneError, UsageError

# The base of the command-line parser's errors. Typer has moved it between releases, its subclass has stayed.
_ParserError: type[Exception] = typer.BadParameter.__mro__[2]


# What a full disk, a closed or broken pipe and a broken device say: not for us to mend.
_OUTSIDE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EPIPE)


class _OneLineErrors(TyperGroup):
    """Ends with the exit status that a command returns, and tells of an error in one line."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        args = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            status = super().main(args, *rest, **{**options, "standalone_mode": False})
            sys.stdout.flush()  # while it can still be told that this fails
        except (KeyboardInterrupt, typer.Abort):
            status = ExitStatus.INTERRUPTED
        except Exception as error:
            if "--debug" in args:
                traceback.print_exc()
            message, status = _explain(error)
            if message:
                with suppress(OSError):
                    say(f"error: {message}")
        sys.exit(status)


def _explain(error: Exception) -> tuple[str, ExitStatus]:
    if isinstance(error, _ParserError):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "geglu-tune"
        text = error.format_message()  # type: ignore[attr-defined]
        return f"{text.rstrip('.')} (see `{command} --help`)", ExitStatus.WRONG_USAGE
    if isinstance(error, UsageError):
        return str(error), ExitStatus.WRONG_USAGE
    if isinstance(error, GegluTuneError):
        return str(error), ExitStatus.FAILED
    if isinstance(error, OSError) and error.errno in _OUTSIDE:
        _give_up_output()
        if error.errno == errno.EPIPE:
            return "", ExitStatus.FAILED  # who has closed the pipe wants to hear no more
        where = error.filename or "the output"
        return f"cannot write {where}: {error.strerror}; what is in the database stays there", ExitStatus.FAILED
    return f"{type(error).__name__}: {error} (a fault of geglu-tune; --debug shows where)", ExitStatus.FAILED


def _give_up_output() -> None:
    """What is still to be written would fail again, with a traceback, when the interpreter ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


app = typer.Typer(
    name="geglu-tune",
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
app.command("export")(export.export)
app.command("import")(importing.import_file)
app.command("merge")(merge.merge)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("push")(push.push)
app.command("pull")(pull.pull)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"geglu-tune {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Find, keep and look up the best tiling of GEGLU kernels on an Ascend 910B4."""


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, _interrupt)  # what a batch system sends first
    _be_able_to_print()
    app(prog_name="geglu-tune")
    raise AssertionError("the command line ends by itself")


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _be_able_to_print() -> None:
    """A terminal that lacks a character gets a question mark, and a closed stream costs nothing but what it shows."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed before Python began; its number must not go to the next file that is opened
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        else:
            stream.reconfigure(errors="replace")
