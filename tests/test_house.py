"""Every import goes down: CONTRIBUTING.md draws the floors, and no module reaches up or across."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {"geglu_kernels": ROOT / "kernels" / "geglu_kernels", "geglu_tune": ROOT / "tuner" / "geglu_tune"}


def floors() -> list[list[str]]:
    """The rooms of every floor, lowest floor first."""
    picture = re.search(r"## The house\n.*?```\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)
    assert picture
    return [[line.split()[0] for line in floor.splitlines() if line.strip()] for floor in re.split("─+", picture[1])][
        ::-1
    ]


def room_of(module: str) -> str:
    """`geglu_tune.store.rows` is in the room `store`; what lies in the package itself is in that of its name."""
    package, *inner = module.split(".")
    lies_in = PACKAGES[package] / inner[0] if inner and package == "geglu_tune" else None
    return inner[0] if lies_in and (lies_in.is_dir() or lies_in.with_suffix(".py").is_file()) else package


def modules() -> Iterator[tuple[str, Path]]:
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), path


def imported(path: Path) -> Iterator[str]:
    """Our modules that a file imports anywhere, by their full names."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name.split(".")[0] in PACKAGES)


def test_imports_go_down():
    floor_of = {room: number for number, floor in enumerate(floors()) for room in floor}
    wrong = {
        f"{module} imports {name}"
        for module, path in modules()
        for name in imported(path)
        if room_of(name) != room_of(module) and floor_of[room_of(name)] >= floor_of[room_of(module)]
    }
    assert not wrong


def test_every_room_is_drawn_once():
    drawn = [room for floor in floors() for room in floor]
    assert sorted(drawn) == sorted({room_of(module) for module, _ in modules()})
