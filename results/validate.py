"""The virtual device against what others measured."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from geglu_tune.errors import GegluTuneError
from validation.page import compared, page_of, summary_of, table_of

PAGE = Path("docs/validation.md")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE} under the current folder")
    arguments = parser.parse_args()
    messages = Console(stderr=True)
    try:
        with messages.status("Compiling and timing about 40 kernels"):
            found = compared()
    except GegluTuneError as error:
        messages.print(f"error: {error}", markup=False)
        return 1
    console = Console()
    console.print(table_of(found))
    console.print(summary_of(found), markup=False)
    if arguments.write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page_of(found), "utf-8")
        messages.print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
