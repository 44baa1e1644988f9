"""The export file: what goes out comes back, and what is hostile is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geglu_tune.errors import GegluTuneError
from geglu_tune.exchange import document
from geglu_tune.exchange.document import from_json, to_json
from store.builders import FORWARD
from store.strategies import contents, databases

SCHEMA = Path(__file__).parents[2] / "docs" / "export.schema.json"


@settings(max_examples=40, deadline=None)
@given(databases)
def test_what_goes_out_comes_back(studies):
    assert from_json(to_json(studies), "a.json") == studies


def test_the_published_schema_is_what_is_read():
    """Written anew by `json.dumps(schema(), indent=1)`."""
    assert json.loads(SCHEMA.read_text("utf-8")) == json.loads(json.dumps(document.schema()))


TRIAL = {
    "tiling": {
        "block_size": 8192,
        "programs": 40,
        "multibuffer": True,
        "form": "tanh",
        "loop_order": "strided",
        "num_warps": None,
    },
    "status": "ok",
    "reason": "",
    "time_us": 700.0,
    "low_us": None,
    "high_us": None,
    "yardstick_us": None,
    "ub_bytes": 98304,
    "program": "abc",
    "notes": [],
    "created_at": "2026-11-30T10:00:00.000000+00:00",
}
STUDY = {
    "kernel": FORWARD.kernel,
    "shape": [8192, 11008],
    "dtype": "bf16",
    "seed": 0,
    "device": {"soc": "Ascend910B4", "vector_cores": 40, "ub_bytes": 196608, "gm_gbps": 800.0},
    "source": "virtual",
    "toolchain": {"triton-ascend": "3.2.0"},
    "kernel_hash": "abc",
    "version": "0.1.0",
    "trials": [TRIAL],
    "best": {
        "trial": 0,
        "default": None,
        "regret": None,
        "margin": None,
        "searched": 24,
        "created_at": "2026-11-30T10:00:00.000000+00:00",
    },
}
EXPORT = {"format": "geglu-tune export", "version": 1, "written_by": "0.1.0", "studies": [STUDY]}


def test_the_example_is_sound():
    assert len(from_json(json.dumps(EXPORT).encode(), "a.json")) == 1


def changed(path: str, value: object) -> bytes:
    """The example with another value at a place such as studies.0.seed; a key that is not there is added."""
    export = json.loads(json.dumps(EXPORT))
    *way, last = path.split(".")
    place = export
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(export).encode()


MANY = {**STUDY, "trials": [TRIAL, TRIAL]}
BAD_VALUES = [
    ("format", "something else"),
    ("version", 2),
    ("version", 1.5),
    ("studies", {}),
    ("studies", [MANY]),
    ("surplus", 1),
    ("studies.0.kernel", "swish"),
    ("studies.0.kernel", "'; drop table trials; --"),
    ("studies.0.dtype", "fp8"),
    ("studies.0.shape", []),
    ("studies.0.shape", [0]),
    ("studies.0.shape", [-1]),
    ("studies.0.shape", [2**63]),
    ("studies.0.shape", [2**30, 2**30]),
    ("studies.0.shape", [True]),
    ("studies.0.seed", -1),
    ("studies.0.seed", 10**400),
    ("studies.0.seed", "0"),
    ("studies.0.source", "guessed"),
    ("studies.0.device.soc", "../../etc/passwd\x00"),
    ("studies.0.device.soc", "\x1b[31mAscend910B4"),
    ("studies.0.device.soc", "[link=file:///etc/passwd]x[/link]"),
    ("studies.0.device.soc", ""),
    ("studies.0.device.vector_cores", 0),
    ("studies.0.device.vector_cores", 40.0),
    ("studies.0.device.ub_bytes", -1),
    ("studies.0.device.gm_gbps", "800"),
    ("studies.0.toolchain", {"triton-ascend": "3.2.0\n\x1b]0;owned\x07"}),
    ("studies.0.toolchain", {"\u202egnirts": "1"}),
    ("studies.0.kernel_hash", "x" * 10_000),
    ("studies.0.trials", []),
    ("studies.0.trials.0.time_us", None),
    ("studies.0.trials.0.time_us", 0),
    ("studies.0.trials.0.time_us", -1.0),
    ("studies.0.trials.0.time_us", 1e300),
    ("studies.0.device.gm_gbps", 5e-324),
    ("studies.0.trials.0.time_us", "700"),
    ("studies.0.trials.0.time_us", float("nan")),
    ("studies.0.trials.0.time_us", float("inf")),
    ("studies.0.trials.0.low_us", float("-inf")),
    ("studies.0.trials.0.status", "fine"),
    ("studies.0.trials.0.reason", "\x1b[2J"),
    ("studies.0.trials.0.created_at", "yesterday"),
    ("studies.0.trials.0.notes", ["\x07"]),
    ("studies.0.trials.0.tiling.block_size", 0),
    ("studies.0.trials.0.tiling.block_size", 48000),
    ("studies.0.trials.0.tiling.programs", 65536),
    ("studies.0.trials.0.tiling.form", "sigmund"),
    ("studies.0.trials.0.tiling.loop_order", "random"),
    ("studies.0.trials.0.tiling.multibuffer", 1),
    ("studies.0.best.trial", 1),
    ("studies.0.best.trial", -1),
    ("studies.0.best.default", 7),
    ("studies.0.best.regret", float("nan")),
    ("studies.0.trials.0", {**TRIAL, "status": "ub_overflow"}),
]
BAD_FILES = {
    "nothing": b"",
    "no JSON": b"once upon a time",
    "half a file": to_json([])[:40],
    "a list": b"[]",
    "a number": b"1",
    "invalid UTF-8": b'{"format": "\xff\xfe"}',
    "deep nesting": b"[" * 200_000,
    "deep nesting of objects": b'{"a":' * 100_000,
    "a database": b"SQLite format 3\0" + bytes(200),
    "a huge number": b'{"version": ' + b"9" * 1_000_000 + b"}",
}


@pytest.mark.parametrize(("path", "value"), BAD_VALUES, ids=str)
def test_a_bad_value_is_refused_in_one_line_that_says_where(path: str, value: object):
    with pytest.raises(GegluTuneError) as refusal:
        from_json(changed(path, value), "a.json")
    line = str(refusal.value)
    assert line.startswith("a.json cannot be imported: ")
    assert line.isprintable()
    assert len(line) < 500


@pytest.mark.parametrize("field", ["time_us", "low_us", "high_us", "yardstick_us"])
@pytest.mark.parametrize("value", [5e-324, 0.9e-3, 1.1e12])
def test_what_can_be_no_time_is_refused_by_its_place(field: str, value: float):
    with pytest.raises(
        GegluTuneError, match=rf"^a\.json cannot be imported: studies\.0\.trials\.0\.{field}: Input should"
    ):
        from_json(changed(f"studies.0.trials.0.{field}", value), "a.json")


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_what_is_no_export_is_refused_in_one_line(content: bytes):
    with pytest.raises(GegluTuneError) as refusal:
        from_json(content, "a.json")
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 500


def test_a_newer_version_says_what_to_do():
    with pytest.raises(GegluTuneError, match="reads version 1 of the format alone"):
        from_json(changed("version", 2), "a.json")


def test_a_million_rows_are_refused_unread():
    row = json.dumps(TRIAL).encode()
    with pytest.raises(GegluTuneError, match="larger than 64 MiB"):
        from_json(b"[" + b",".join([row] * 1_000_000), "a.json")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_one_changed_byte_is_refused_or_means_something(data):
    """No byte of a file leads to anything but an answer or one line."""
    content = bytearray(to_json([data.draw(contents())]))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    refusal = ""
    try:
        studies = from_json(bytes(content), "a.json")
    except GegluTuneError as error:
        refusal = str(error)
    else:
        assert from_json(to_json(studies), "a.json") == studies
    assert refusal.isprintable()
