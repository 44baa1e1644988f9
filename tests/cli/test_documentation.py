"""What the pages say of the command line is so: each command is one, and takes what is written after it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from geglu_tune.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4,}\S.*$", re.MULTILINE)
INLINE = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"(?:\$ )?(?:\S*/)?geglu-tune\s+(.+)")
COMMANDS = get_command(app).commands


def commands(page):
    """The arguments of every geglu-tune that a page's code has, block by block or within a line."""
    blocks = [*FENCED.findall(page), *INDENTED.findall(FENCED.sub("", page))]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    prose = FENCED.sub("", page)
    for text in [*lines, *(" ".join(code.split()) for code in INLINE.findall(prose))]:
        found = COMMAND.fullmatch(text.strip())
        if found:
            words = shlex.split(re.split(r" (?:[|>&;]|2>)", found[1])[0], comments=True)
            if not words[0].startswith("-"):
                yield words


def parse(words):
    """Raises what the command line would raise for them; a bare name only has to be one."""
    name, *args = words
    assert name in COMMANDS, f"there is no command {name}"
    if args:
        COMMANDS[name].make_context(name, args)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_is_taken(page):
    for words in commands(page.read_text("utf-8")):
        parse(words)


def test_every_command_is_on_a_page():
    named = {words[0] for page in PAGES for words in commands(page.read_text("utf-8"))}
    assert set(COMMANDS) - named == set()


def test_every_page_is_linked():
    """A page that nothing leads to is read by nobody."""
    texts = {page: page.read_text("utf-8") for page in PAGES}
    for page in PAGES[2:]:
        assert any(f"{page.name})" in text for other, text in texts.items() if other != page), page.name


def test_every_test_that_a_page_names_is_there():
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text("utf-8"))}
    assert len(named) > 50
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []


@pytest.mark.parametrize(
    ("page", "error"),
    [
        ("```bash\n.venv/bin/geglu-tune sweep --dtyp bf16\n```", "No such option"),
        ("```\ngeglu-tune lookup geglu_forward \\\n  --dtype bf16\n```", "Missing"),
        ("then\n\n    geglu-tune swep --dtype bf16\n", "no command swep"),
        ("say `geglu-tune show\n--trial` or nothing", "No such option"),
        ("```\n$ geglu-tune sweep --trials none > a.json\n```", "valid integer"),
    ],
)
def test_a_wrong_command_is_found_wherever_it_is_written(page, error):
    (words,) = commands(page)
    with pytest.raises(Exception, match=error):
        parse(words)
