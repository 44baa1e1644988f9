"""`geglu-tune explain`, with the real compilers."""

import importlib.util
import itertools
import json
import re
from collections import defaultdict
from functools import cache

import pytest
from typer.testing import CliRunner

from geglu_tune.cli import app
from geglu_tune.devices.virtual.explain.chrometrace import FIRST_TILES, LAST_TILES

SLOW = ("geglu_forward", "--block-size", "10240")
SHORT = ("geglu_forward", "--block-size", "4096", "--shape", "600000")


def explain(*args):
    return CliRunner().invoke(app, ["explain", *map(str, args)], catch_exceptions=False)


@cache
def document(*args):
    return json.loads(explain(*args, "--json").stdout)


@pytest.mark.parametrize(
    "args",
    [
        SLOW,
        ("geglu_backward", "--block-size", "4096", "--form", "sigmoid"),
        ("geglu_forward", "--shape", "1", "--block-size", "8192"),
        ("geglu_forward", "--block-size", "8192", "--no-multibuffer"),
        ("geglu_backward", "--block-size", "16384"),
    ],
    ids=" ".join,
)
def test_the_text_fits_in_80_columns(args):
    assert max(map(len, explain(*args).stdout.splitlines())) <= 80


def test_the_verdict_comes_first_and_every_part_is_there():
    result = explain(*SLOW)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    headings = [
        "takes",
        "Time (a model's, not measured)",
        "Steady state",
        "Critical chain",
        "UB map",
        "Instructions of",
    ]
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)
    assert "on virtual Ascend910B4" in text


def test_text_and_json_tell_the_same():
    found, text = document(*SLOW), " ".join(explain(*SLOW).stdout.split())
    assert found["verdict"] in text
    assert f"{found['time_us']['nominal'] / 1000:.3f} ms" in text
    assert f"{found['ub']['used_bytes']:,} of {found['ub']['available_bytes']:,} bytes in use" in text
    for buffer in found["ub"]["buffers"]:
        assert re.search(rf" {buffer['address']:,} +{buffer['bytes']:,} +{buffer['dtype']} ", text)


def test_without_a_block_size_the_default_is_explained():
    found = document("geglu_forward")
    assert (found["block_size"], found["programs"]) == (8192, 40)
    assert found["time_us"] == found["default"]["time_us"]


def test_options_reach_the_tiling():
    options = (
        "--programs",
        "7",
        "--form",
        "sigmoid",
        "--loop-order",
        "contiguous",
        "--no-multibuffer",
        "--dtype",
        "fp16",
    )
    found = document("geglu_forward", "--block-size", "4096", "--shape", "8x1024x100", *options)
    asked = {"programs": 7, "form": "sigmoid", "loop_order": "contiguous", "multibuffer": False, "dtype": "fp16"}
    assert asked.items() <= found.items()
    assert (found["shape"], found["n"]) == ("8x1024x100", 819_200)


class TestRefusal:
    """A tiling that does not fit is an answer, told in full on stdout; the status is 3, as a sweep's would be."""

    def test_it_says_what_is_needed_and_what_fits(self):
        result = explain("geglu_backward", "--block-size", 16384)
        assert result.exit_code == 3
        text = " ".join(result.stdout.split())
        assert re.search(r"it needs [\d,]+ bytes, 196,608 are there", text)
        assert re.search(r"largest BLOCK_SIZE of this variant that compiles is \d+", text)

    def test_json_has_the_numbers(self):
        result = explain("geglu_backward", "--block-size", 16384, "--json")
        assert result.exit_code == 3
        found = json.loads(result.stdout)
        assert found["status"] == "ub_overflow"
        assert found["needed_bytes"] > found["available_bytes"]
        assert found["largest_block_size"] % 256 == 0

    def test_a_block_that_no_compiler_takes_is_told_likewise(self):
        result = explain("geglu_backward", "--block-size", 2**29)
        assert result.exit_code == 3
        assert "This tiling does not compile: triton-ascend" in result.stdout

    def test_no_file_is_written(self, tmp_path):
        explain("geglu_backward", "--block-size", 16384, "--trace", tmp_path / "t.json", "--png", tmp_path / "p.png")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("geglu",), 2, "unknown kernel 'geglu'"),
        (("geglu_forward", "--dtype", "fp8"), 2, "unknown dtype 'fp8'"),
        (("geglu_forward", "--block-size", "1000"), 2, "BLOCK_SIZE 1000 is no multiple of 256; try 768"),
        (("geglu_forward", "--programs", "41"), 2, "use at most 40"),
        (("geglu_forward", "--programs", "3", "--shape", "9000"), 2, "use at most 2"),
        (("geglu_forward", "--form", "erf"), 2, "geglu_forward has no form 'erf': choose from"),
        (("geglu_forward", "--loop-order", "random"), 2, "no loop order 'random'"),
        (("geglu_forward", "--device", "virtual:Ascend310"), 2, "no profile for device 'Ascend310'"),
        (("geglu_forward", "--device", "npu:7"), 2, "the virtual device; use --device virtual:Ascend910B4"),
        (("geglu_forward", "--trace", "missing/folder/t.json"), 1, "cannot write missing/folder/t.json"),
    ],
)
def test_mistakes_get_one_line(args, status, message):
    result = explain(*args)
    assert result.exit_code == status
    assert not result.stdout
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    assert explain(*SLOW, "--trace", path).exit_code == 0
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def slices(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


class TestTrace:
    """The Trace Event Format as its document defines it, and as Perfetto reads it."""

    def test_every_event_has_the_fields_of_its_phase(self, trace):
        fields = {
            "M": {"name", "pid", "tid", "args"},
            "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
            "s": {"name", "cat", "pid", "tid", "ts", "id"},
            "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
        }
        for event in trace["traceEvents"]:
            assert set(event) == fields[event["ph"]] | {"ph"}
            for name in {"ts", "dur"} & set(event):
                assert event[name] >= 0

    def test_tracks_are_named_and_sorted(self, trace, slices):
        named = {
            event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"
        }
        assert {event["tid"] for event in slices} == set(named)
        assert {name.split()[0] for name in named.values()} == {"launch", "MTE2", "V", "MTE3", "S"}
        assert any(event["name"] == "process_name" for event in trace["traceEvents"])

    def test_events_are_in_order_of_time(self, trace):
        times = [event["ts"] for event in trace["traceEvents"] if "ts" in event]
        assert times == sorted(times)

    def test_slices_of_a_track_do_not_overlap(self, slices):
        tracks = defaultdict(list)
        for event in slices:
            tracks[event["tid"]].append(event)
        for events in tracks.values():
            for before, after in itertools.pairwise(events):
                assert before["ts"] + before["dur"] <= after["ts"] + 1e-9

    def test_arrows_go_forward_from_slice_to_slice(self, trace, slices):
        starts, ends = ({e["id"]: e for e in trace["traceEvents"] if e["ph"] == phase} for phase in "sf")
        assert starts
        assert starts.keys() == ends.keys()
        for number, start in starts.items():
            end = ends[number]
            assert (start["name"], start["cat"], end["bp"]) == (end["name"], end["cat"], "e")
            assert start["ts"] <= end["ts"]
            for event in (start, end):
                on_track = [s for s in slices if s["tid"] == event["tid"] and s["cat"] != "wait"]
                assert any(s["ts"] <= event["ts"] < s["ts"] + s["dur"] for s in on_track)

    def test_it_lasts_as_long_as_the_launch_in_microseconds(self, slices):
        end = max(event["ts"] + event["dur"] for event in slices)
        assert end == pytest.approx(document(*SLOW)["steady_state"]["launch_us"], rel=1e-6)

    def test_of_many_tiles_the_first_and_the_last_are_there(self, slices):
        tiles = {event["args"]["tile"] for event in slices if event["name"] == "store c"}
        last = document(*SLOW)["steady_state"]["tiles_of_busiest_core"]
        assert tiles == {*range(FIRST_TILES), *range(last - LAST_TILES, last)}

    def test_of_few_tiles_all_are_there(self, tmp_path):
        path = tmp_path / "trace.json"
        explain(*SHORT, "--trace", path)
        events = json.loads(path.read_text())["traceEvents"]
        tiles = [event["args"]["tile"] for event in events if event["name"] == "store c"]
        assert tiles == list(range(document(*SHORT)["steady_state"]["tiles_of_busiest_core"]))


class TestPicture:
    COLOURS = ("#F0E442", "#56B4E9", "#0072B2")

    @pytest.mark.parametrize(("args", "tiles"), [(SLOW, 3), (("geglu_forward", "--shape", "5000"), 1)])
    def test_it_shows_three_tiles_or_all_there_are(self, tmp_path, args, tiles):
        from matplotlib.colors import to_rgb
        from matplotlib.image import imread

        path = tmp_path / "picture.png"
        assert explain(*args, "--png", path).exit_code == 0
        pixels = imread(path)[..., :3]
        shares = [(abs(pixels - to_rgb(colour)).max(axis=-1) < 0.01).mean() for colour in self.COLOURS]
        assert [share > 0.01 for share in shares] == [number < tiles for number in range(3)]

    def test_without_matplotlib_the_extra_is_named(self, tmp_path, monkeypatch):
        find_spec = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else find_spec(name, *rest)
        )
        result = explain(*SLOW, "--png", tmp_path / "picture.png")
        assert result.exit_code == 1
        assert "geglu-tune[plot]" in result.stderr
        assert not result.stdout
