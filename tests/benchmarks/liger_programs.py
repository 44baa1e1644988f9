"""Puts every vector program of Liger-Kernel's Ascend backend through the virtual device, and tells how far each gets.

    PYTHONPATH=tests python tests/benchmarks/liger_programs.py --liger FOLDER [--write] [--only OPERATOR]

FOLDER is Liger-Kernel's wheel, unpacked. Each operator runs forward and backward in Liger's own host code; the device
compiles, reads, times and executes each launch, and torch on the CPU says what must come out. --write renews
docs/liger-programs.md. Ends with status 1 where the target is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from ligers import device
from ligers.case import Case
from ligers.operators import CASES
from ligers.recording import Launch, recording
from ligers.wheel import Operators, ligers_operators

PAGE = Path(__file__).parents[2] / "docs" / "liger-programs.md"
LEAST_SHARE = 75 / 83
"""Of the programs, that are read, timed and executed."""
MUST_EQUAL = frozenset(
    ["softmax", "rms_norm", "layer_norm", "cross_entropy", "jsd", "kl_div", "poly_norm", "tvd", "dyt", "rope"]
)
"""Operators that must give what torch gives."""
STAGES = ("compiled", "read", "timed", "executed")


@dataclass
class Passage:
    """How far one program gets through the device."""

    operator: str
    kernel: str
    stages: set[str] = field(default_factory=set)
    failures: set[str] = field(default_factory=set)
    read: Any = None

    def attempt(self, stage: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function gives; None where it raises, whatever that is, as one program must not stop the others."""
        try:
            result = function(*arguments)
        except Exception as error:
            self.failures.add(f"not {stage}: {_first_line(error)}")
            self.stages.discard(stage)
            return None
        self.stages.add(stage)
        return result


class Passages:
    """Executes what is recorded, and keeps the passage of each program."""

    def __init__(self) -> None:
        self.by_program: dict[tuple[str, str], Passage] = {}
        self.operator = ""

    def __call__(self, launch: Launch) -> None:
        if launch.is_cube:
            return
        key = self.operator, launch.program
        if key not in self.by_program:
            self.by_program[key] = self._through_the_compiler(launch)
        passage = self.by_program[key]
        failed_before = any(failure.startswith("not executed") for failure in passage.failures)
        if passage.read is not None and not failed_before:
            passage.attempt("executed", device.execute_program, passage.read, launch)

    def _through_the_compiler(self, launch: Launch) -> Passage:
        passage = Passage(self.operator, launch.name)
        compiled = passage.attempt("compiled", device.compile_launch, launch)
        if compiled is not None:
            passage.read = passage.attempt("read", device.read, compiled)
        if passage.read is not None:
            passage.attempt("timed", device.time_us, passage.read, launch)
        return passage


@dataclass(frozen=True)
class Verdict:
    """Whether an operator gives what torch gives, and what kernels it took."""

    case: Case
    kernels: frozenset[str]
    differences: tuple[str, ...]

    @property
    def equal(self) -> bool | None:
        """None where there is nothing to compare with."""
        return None if self.case.torch is None else not self.differences


def judge(case: Case, operators: Operators, passages: Passages) -> Verdict:
    """Run an operator on the device and compare."""
    passages.operator = case.operator
    with recording(passages) as launches:
        try:
            results = case.run(operators)
            differences = case.differences(results) if case.torch is not None else []
        except Exception as error:  # host code that stumbles over what a failed kernel has left
            differences = [_first_line(error)]
    return Verdict(case, frozenset(launch.name for launch in launches), tuple(differences))


def rows(passages: Iterable[Passage], verdicts: list[Verdict]) -> list[tuple[str, ...]]:
    """A row for each kernel of each operator: programs, how many pass each stage, and whether results are equal."""
    kernels: dict[tuple[str, str], list[Passage]] = {}
    for passage in passages:
        kernels.setdefault((passage.operator, passage.kernel), []).append(passage)
    table = []
    for (operator, kernel), found in kernels.items():
        passed = [str(sum(stage in passage.stages for passage in found)) for stage in STAGES]
        taking = [one for one in verdicts if one.case.operator == operator and kernel in one.kernels]
        table.append((operator, kernel, str(len(found)), *passed, _equal(one.equal for one in taking)))
    return table


def _equal(judged: Iterable[bool | None]) -> str:
    known = [one for one in judged if one is not None]
    return f"{sum(known)} of {len(known)}" if known else "no reference"


def misses(passages: list[Passage], verdicts: list[Verdict]) -> list[str]:
    """Where the target is missed."""
    through = sum(passage.stages == set(STAGES) for passage in passages)
    lines = []
    if through < LEAST_SHARE * len(passages):
        lines.append(f"{through} of {len(passages)} programs come through, under {LEAST_SHARE:.0%}")
    lines += [
        f"{one.case}: {', '.join(one.differences)}"
        for one in verdicts
        if one.case.operator in MUST_EQUAL and one.equal is False
    ]
    return lines


HEADINGS = ("operator", "kernel", "programs", *STAGES, "operators equal to torch")


def page(table: list[tuple[str, ...]], passages: list[Passage], verdicts: list[Verdict]) -> str:
    """docs/liger-programs.md."""
    through = sum(passage.stages == set(STAGES) for passage in passages)
    kernels = len({passage.kernel for passage in passages})
    failures = sorted({f"- {one.kernel}: {failure}" for one in passages for failure in one.failures})
    unequal = [f"- {one.case}: {', '.join(one.differences)}" for one in verdicts if one.equal is False]
    parts = [
        "# Liger-Kernel's programs on the virtual device",
        "<!-- written by tests/benchmarks/liger_programs.py --write -->",
        "The vector kernels that Liger-Kernel 0.8.5's Ascend backend launches, compiled for the Ascend 910B4 with the "
        "arguments that its own host code gives them. A kernel is one program for each set of types and constants. "
        "Operators run forward and backward on the virtual device and are compared with torch on the CPU.",
        f"{through} of {len(passages)} programs of {kernels} kernels are compiled, read, timed and executed.",
        "\n".join(_markdown_row(row) for row in (HEADINGS, ("---",) * len(HEADINGS), *table)),
    ]
    if failures:
        parts += ["## Programs that do not come through", "\n".join(failures)]
    if unequal:
        parts += ["## Operators that differ from torch", "\n".join(unequal)]
    return "\n\n".join(parts) + "\n"


def _markdown_row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _first_line(error: Exception) -> str:
    told = str(error).strip()
    return told.splitlines()[0] if told else type(error).__name__


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--liger", type=Path, required=True)
    parser.add_argument("--only", metavar="OPERATOR")
    parser.add_argument("--write", action="store_true", help="renew docs/liger-programs.md")
    args = parser.parse_args()
    chosen = [case for case in CASES if args.only in (None, case.operator)]
    found, console = Passages(), Console()
    with ligers_operators(args.liger) as operators:
        verdicts = [judge(case, operators, found) for case in track(chosen, "operators", console=console)]
    passages = list(found.by_program.values())
    table = rows(passages, verdicts)
    shown = Table(*HEADINGS)
    for row in table:
        shown.add_row(*row)
    console.print(shown)
    if args.write:
        PAGE.write_text(page(table, passages, verdicts), "utf-8")
    missed = misses(passages, verdicts)
    console.print("\n".join(f"missed: {line}" for line in missed) or "the target is met", markup=False)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
