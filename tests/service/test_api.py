"""What the service answers, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from geglu_tune.exchange.document import MOST_BYTES, from_json, to_json
from geglu_tune.service import answers
from geglu_tune.service.app import create_app
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from service.conftest import BEST, TOKEN
from store.builders import MEASURED, keep_best
from store.strategies import known

ASK = "/v1/tiling?kernel=geglu_forward&shape=8192x11008"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def export(tmp_path: Path) -> bytes:
    with Store.open(tmp_path / "theirs.db", create=True) as store:
        keep_best(store, Tiling(5120, 40), 600.0)
        return to_json(store.contents())


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("shape", ["8192x11008", "300x11008"])
def test_a_tiling_is_what_lookup_prints(client: TestClient, tuned: Path, shape: str, dtype: str):
    command = [sys.executable, "-m", "geglu_tune", "lookup", "geglu_forward", shape, "--dtype", dtype, "--json"]
    printed = json.loads(subprocess.run([*command, "--db", str(tuned)], capture_output=True, check=True).stdout)
    if printed["row"]:
        del printed["row"]["database"]  # where a file lies is nobody's business
    assert client.get(f"/v1/tiling?kernel=geglu_forward&shape={shape}&dtype={dtype}").json() == printed


def test_an_answer_is_new_when_the_database_is(client: TestClient, tuned: Path, monkeypatch):
    assert client.get(ASK).json()["block_size"] == BEST.block_size
    with Store.open(tuned, create=False) as store:
        keep_best(store, Tiling(1024, 40), 100.0, provenance=MEASURED)
    time.sleep(answers.FRESH_S)
    assert client.get(ASK).json()["block_size"] == 1024


def test_the_service_of_no_database_answers_with_defaults(tmp_path: Path):
    client = TestClient(create_app(tmp_path / "none.db"))
    assert client.get(ASK).json()["origin"] == "default"
    assert client.get("/healthz").status_code == 503
    assert "no tunings in" in client.get("/v1/tilings").json()["error"]
    assert "no tunings in" in client.get("/").text


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "the parameter kernel is missing"),
        ("kernel=geglu_forward", "the parameter shape is missing"),
        ("kernel=x&shape=1", "unknown kernel 'x'"),
        ("kernel=geglu_forward&shape=0", "has no elements"),
        ("kernel=geglu_forward&shape=-1", "cannot read shape"),
        ("kernel=geglu_forward&shape=" + "9" * 400, "cannot read shape"),
        ("kernel=geglu_forward&shape=1&dtype=fp8", "unknown dtype"),
        ("kernel=geglu_forward&shape=1&device=npu:0", "is not the name of a device"),
        ("kernel=geglu_forward&shape=1&kernel=geglu_backward", "is there twice"),
        ("kernel=geglu_forward&shape=1&db=/etc/passwd", "unknown parameter 'db'"),
        ("kernel=%1b[31m&shape=1", "unknown kernel '?[31m'"),
    ],
)
def test_a_bad_question_is_answered_with_what_is_wrong(client: TestClient, query: str, says: str):
    answer = client.get(f"/v1/tiling?{query}")
    assert answer.status_code == 400
    assert says in answer.json()["error"]


def test_lists_are_filtered_and_paged(client: TestClient):
    everything = client.get("/v1/tilings").json()
    assert (everything["total"], everything["next"]) == (2, None)
    assert [row["dtype"] for row in client.get("/v1/tilings?source=measured").json()["items"]] == ["fp32"]
    assert client.get("/v1/tilings?kernel=geglu_backward").json()["items"] == []
    first = client.get("/v1/trials?dtype=bf16&limit=2").json()
    assert (first["total"], len(first["items"]), first["next"]) == (5, 2, 2)
    last = client.get("/v1/trials?dtype=bf16&limit=2&offset=4").json()
    assert ([row["status"] for row in last["items"]], last["next"]) == (["ub_overflow"], None)
    for bad in ("limit=0", "limit=1001", "limit=x", "offset=-1", "limit=1e2", "source=guessed", "limit=٣"):
        assert client.get(f"/v1/tilings?{bad}").status_code == 400


def test_a_snapshot_is_an_export_of_the_bests_with_an_etag(client: TestClient):
    snapshot = client.get("/v1/snapshot")
    studies = from_json(snapshot.content, "snapshot")
    assert sorted(len(study.trials) for study in studies) == [1, 2]
    assert snapshot.headers["content-encoding"] == "gzip"
    again = client.get("/v1/snapshot", headers={"If-None-Match": snapshot.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_results_are_taken_over_from_who_has_the_token(client: TestClient, tuned: Path, tmp_path: Path):
    answer = client.post("/v1/tilings", content=export(tmp_path), headers=BEARER)
    assert (answer.status_code, answer.json()) == (200, {"studies": 0, "trials": 1, "bests": 1})
    assert client.get("/v1/tilings?dtype=bf16").json()["items"][0]["block_size"] == 5120


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"}],
    ids=["none", "wrong", "no scheme", "another scheme"],
)
def test_nobody_else_can_write(client: TestClient, tuned: Path, tmp_path: Path, headers):
    with Store.read(tuned) as store:
        before = known(store)
    assert client.post("/v1/tilings", content=export(tmp_path), headers=headers).status_code == 401
    with Store.read(tuned) as store:
        assert known(store) == before


def test_without_a_token_nothing_is_written(tuned: Path, tmp_path: Path):
    client = TestClient(create_app(tuned))
    before, body = tuned.read_bytes(), export(tmp_path)
    for headers in ({}, BEARER, {"Authorization": "Bearer "}):
        answer = client.post("/v1/tilings", content=body, headers=headers)
        assert (answer.status_code, "read-only" in answer.json()["error"]) == (403, True)
    assert tuned.read_bytes() == before


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 100_000, b"\xff", b"null"], ids=["nothing", "half", "deep", "no", "null"]
)
def test_a_bad_export_is_refused_whole(client: TestClient, body: bytes):
    answer = client.post("/v1/tilings", content=body, headers=BEARER)
    assert answer.status_code == 422
    assert "nothing was imported" in answer.json()["error"]


def test_a_body_that_is_too_long_is_refused(client: TestClient):
    announced = client.post("/v1/tilings", content=bytes(MOST_BYTES + 1), headers=BEARER)
    assert announced.status_code == 413

    def chunks():
        for _ in range(MOST_BYTES // 2**20 + 2):
            yield bytes(2**20)

    assert client.post("/v1/tilings", content=chunks(), headers=BEARER).status_code == 413


@pytest.mark.parametrize(
    "path", ["/../etc/passwd", "/study/..%2f..%2fetc", "/study/99", "/study/9" + "9" * 30, "/static/x"]
)
def test_no_path_of_outside_reaches_the_disk(client: TestClient, path: str):
    assert client.get(path).status_code == 404


def test_a_method_that_is_not_there(client: TestClient):
    for method in ("PUT", "DELETE", "PATCH"):
        assert client.request(method, "/v1/tilings").status_code == 405


def test_metrics_count_by_route_and_status(client: TestClient):
    for path in (ASK, "/study/1", "/nowhere/1", "/nowhere/2"):
        client.get(path)
    told = client.get("/metrics").text
    assert 'geglu_tune_requests_total{route="/v1/tiling",status="200"} 1.0' in told
    assert 'geglu_tune_requests_total{route="none",status="404"} 2.0' in told
    assert 'geglu_tune_request_seconds_count{route="/study/{study_id:int}"} 1.0' in told


def test_a_damaged_database_is_told_and_nothing_of_it_leaks(client: TestClient, tuned: Path):
    tuned.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    for path in ("/v1/tilings", "/v1/trials", "/v1/snapshot", "/healthz", "/study/1"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert "Traceback" not in answer.text
    assert client.get("/").status_code == 200


def test_names_in_a_database_are_text_to_a_browser(client: TestClient, tuned: Path):
    with Store.open(tuned, create=False) as store:
        evil = replace(MEASURED, toolchain={"<script>alert(1)</script>": "<img src=x onerror=alert(2)>"})
        study = keep_best(store, BEST, 1.0, provenance=evil)
    for path in ("/", f"/study/{study.id}", "/compare"):
        page = client.get(path).text
        assert "<script" not in page
        assert "<img src=x" not in page
