"""`geglu-tune doctor`: each planted fault is named, and nothing is changed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from geglu_tune.doctor import checks as doctor
from geglu_tune.doctor.checks import State
from geglu_tune.doctor.probes import Probe
from geglu_tune.paths import default_database_path
from geglu_tune.runtime.dbfile import SCHEMA_VERSION
from geglu_tune.store import Store
from store.builders import contents, query, unprivileged

NAMES = ["python", "triton", "triton-ascend", "CANN", "database", "compile cache", "compiler"]
NAMES += ["torch", "torch_npu", "devices", "UB"]
WITHOUT_CANN = 'raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")'
AN_NPU = {
    "torch_npu/__init__.py": "import torch\nfrom torch_npu import npu\ntorch.npu = npu\n__version__ = '1.2.3'",
    "torch_npu/npu.py": (
        "def is_available(): return True\ndef device_count(): return 1\ndef current_device(): return 0\n"
        "def get_device_name(index): return 'Ascend910B4'"
    ),
}
CANN_TELLS = {
    "tbe/__init__.py": "",
    "tbe/common/__init__.py": "",
    "tbe/common/platform.py": "set_current_compile_soc_info = print\nget_soc_spec = {'UB_SIZE': 196608}.get",
}


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("TORCH_DEVICE_BACKEND_AUTOLOAD", "TRITON_CACHE_DIR", "TRITON_HOME", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of packages that go before the installed ones, in this process and in those it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    return folder


def install(site, name, version, files, entry_points=""):
    """Do as pip does; a file of another distribution is overwritten."""
    record = []
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(text)}\n")
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
    (info / "RECORD").write_text("".join(record))


def install_triton_ascend(site):
    files = {
        "triton/__init__.py": "ascend = True",
        "triton/backends/ascend/__init__.py": "",
        "triton/knobs.py": "a = 1",
    }
    install(site, "triton-ascend", "3.2.0", files)


def install_stock_triton(site):
    install(site, "triton", "3.6.0", {"triton/__init__.py": "ascend = False", "triton/knobs.py": "b = 22"})


def install_torch_npu_without_cann(site):
    """`import torch` loads it by itself, and fails with it."""
    files = {"torch_npu/__init__.py": WITHOUT_CANN}
    install(site, "torch_npu", "1.2.3", files, "[torch.backends]\ntorch_npu = torch_npu:_autoload\n")


def run(*args):
    command = [sys.executable, "-c", "from geglu_tune.cli import main; main()", "doctor", *args]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def facts(probe, limit=60.0):
    with closing(Probe(probe, limit)) as running:
        return running.facts()


def test_a_sound_machine_has_no_fault():
    """One line a check, and no trace left behind."""
    code, stdout, stderr = run()
    lines = stdout.splitlines()
    assert [line[9:23].strip() for line in lines] == NAMES
    assert "fault" not in {line.split()[0] for line in lines}
    assert "compiled a kernel in" in lines[NAMES.index("compiler")]
    assert (code, stderr) == (0, "no faults\n")
    assert not Path(default_database_path()).parent.exists()


def test_each_planted_fault_is_named(site, tmp_path, monkeypatch):
    install_stock_triton(site)
    install_torch_npu_without_cann(site)
    foreign = tmp_path / "foreign.db"
    query(foreign, "create table t (x)")
    monkeypatch.setenv("XDG_CACHE_HOME", str(foreign))
    before = contents(tmp_path)
    code, stdout, stderr = run("--json", "--db", str(foreign))
    checks = {check["name"]: check for check in json.loads(stdout)}
    assert list(checks) == NAMES
    assert checks["triton"]["state"] == "fault"
    assert f"{site}/triton of triton 3.6.0 hides triton-ascend" in checks["triton"]["detail"]
    assert "pip uninstall -y triton triton-ascend" in checks["triton"]["fix"]
    assert checks["torch_npu"]["state"] == "fault"
    assert "so `import torch` fails" in checks["torch_npu"]["detail"]
    assert "libhccl.so" in checks["torch_npu"]["detail"]
    assert "set_env.sh" in checks["torch_npu"]["fix"]
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in checks["torch_npu"]["fix"]
    assert checks["torch"]["state"] == "ok"
    assert checks["database"]["state"] == "fault"
    assert "database of another program" in checks["database"]["detail"]
    assert "--db" in checks["database"]["fix"]
    assert checks["compile cache"]["state"] == "warning"
    assert f"{foreign} cannot be written (Not a directory)" in checks["compile cache"]["detail"]
    faults = sum(check["state"] == "fault" for check in checks.values())
    assert (code, stderr) == (1, f"{faults} faults\n")
    assert all(check["fix"] for check in checks.values() if check["state"] != "ok")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("second", [install_triton_ascend, install_stock_triton])
def test_tritons_in_one_folder_overwrite_each_other_in_whichever_order(site, second):
    for one in {install_triton_ascend, install_stock_triton} - {second}:
        one(site)
    second(site)
    check = doctor.check_triton([])
    assert check.state is State.FAULT
    assert "triton 3.6.0 and triton-ascend 3.2.0 are both in" in check.detail
    assert "pip uninstall -y triton triton-ascend, then pip install 'geglu-tune[ascend]'" in check.fix


def test_what_a_removed_stock_triton_took_along_is_missed(site):
    install_triton_ascend(site)
    assert doctor.check_triton([]).state is State.OK
    (site / "triton" / "knobs.py").write_text("a = 2")
    assert "1 are missing or another's, such as triton/knobs.py" in doctor.check_triton([]).detail
    (site / "triton" / "backends" / "ascend" / "__init__.py").unlink()
    check = doctor.check_triton([])
    assert check.state is State.FAULT
    assert "2 are missing" in check.detail


def test_a_folder_that_happens_to_be_called_triton_is_named(site):
    (site / "triton").mkdir()
    (site / "triton" / "__init__.py").touch()
    check = doctor.check_triton([])
    assert check.state is State.FAULT
    assert f"{site}/triton owns the import name" in check.detail
    assert "hides triton-ascend" in check.detail


def test_another_triton_ascend_than_the_one_asked_for_is_a_warning(site):
    install(site, "triton-ascend", "9.9.9", {})
    check = doctor.check_triton_ascend([])
    assert (check.state, check.fix) == (State.WARNING, "pip install triton-ascend==3.2.0")


def test_a_missing_compiler_is_named(site):
    """The package is there, its program is not."""
    install(site, "ascendnpu-ir", "1.2.0", {"ascendnpuir/__init__.py": ""})
    check = doctor.check_compiler(facts("compiler"), [])
    assert check.state is State.FAULT
    assert f"{site}/ascendnpuir/bin/bishengir-compile does not run" in check.detail
    assert "geglu-tune[ascend]" in check.fix


def test_a_compiler_that_runs_and_cannot_compile_is_named(tmp_path, monkeypatch):
    compiler = tmp_path / "bishengir-compile"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && exit\necho "no licence" >&2\nexit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    check = doctor.check_compiler(facts("compiler"), [])
    assert check.state is State.FAULT
    assert f"{compiler} cannot compile a kernel: bishengir-compile: no licence" in check.detail


@pytest.mark.parametrize(
    ("source", "limit", "says"),
    [
        ("import time\nprint('loading')\ntime.sleep(600)", 3.0, "no answer in 3 s"),
        ("import os\nos.abort()", 60.0, "died of SIGABRT"),
        ("raise RuntimeError('line one\\nbad build')", 60.0, "RuntimeError: bad build"),
    ],
    ids=["hangs", "dies", "fails"],
)
def test_a_torch_that_does_not_load_is_survived_and_named(site, source, limit, says):
    install(site, "torch", "2.99.0", {"torch/__init__.py": source})
    found = facts("cards", limit)
    check = doctor.check_torch(found, [])
    assert check.state is State.FAULT
    assert says in check.detail
    assert doctor.check_devices(found, ["npu"]).state is State.FAULT


def test_a_torch_npu_that_is_kept_from_loading_is_a_warning(site, monkeypatch):
    install_torch_npu_without_cann(site)
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    found = {"torch": "1.2.3", "torch_npu_error": "ImportError: libhccl.so"}
    assert doctor.check_torch_npu(found, []).state is State.WARNING
    with_card = doctor.check_torch_npu(found, ["npu"])
    assert (with_card.state, with_card.fix) == (State.FAULT, "install CANN, then source CANN's set_env.sh")


def test_a_torch_npu_of_another_torch_is_named(site):
    install(site, "torch_npu", "2.9.0.post4", {"torch_npu/__init__.py": ""})
    assert doctor.check_torch_npu({"torch": "2.9.0+cpu", "torch_npu": "2.9.0"}, ["npu"]).state is State.OK
    check = doctor.check_torch_npu({"torch": "2.13.0+cpu", "torch_npu_error": "ImportError: undefined symbol"}, ["npu"])
    assert check.state is State.FAULT
    assert "for another torch than 2.13.0+cpu" in check.detail
    assert "install torch 2.9.0, or torch_npu 2.13.0" in check.fix


@pytest.mark.parametrize(
    ("cann", "environment", "told_by"),
    [(CANN_TELLS, "1572864", "ASCEND_UB_CAPACITY_BITS"), (CANN_TELLS, "", "get_soc_spec"), ({}, "", "profile")],
)
def test_an_npu_and_who_tells_its_ub_are_named(site, monkeypatch, cann, environment, told_by):
    """There is none here: torch is real, torch_npu and CANN are not."""
    install(site, "torch_npu", "1.2.3", {**AN_NPU, **cann})
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", environment)
    found = facts("cards")
    assert doctor.check_devices(found, ["npu"]).detail == "npu:0 Ascend910B4"
    check = doctor.check_ub(found, ["npu"])
    assert (check.state, check.detail) == (State.OK, f"196,608 bytes, from {told_by}")


def test_an_npu_that_nobody_knows_is_a_fault(site):
    unknown = {**AN_NPU, "torch_npu/npu.py": AN_NPU["torch_npu/npu.py"].replace("910B4", "999")}
    install(site, "torch_npu", "1.2.3", unknown)
    check = doctor.check_ub(facts("cards"), ["npu"])
    assert check.state is State.FAULT
    assert "no profile for Ascend999" in check.detail


def test_a_ub_capacity_that_is_no_number_is_a_warning(monkeypatch):
    assert "the profile of the virtual Ascend910B4" in doctor.check_ub({}, []).detail
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", "192K")
    check = doctor.check_ub({}, [])
    assert check.state is State.WARNING
    assert "'192K'" in check.detail


def test_a_card_that_nothing_drives_is_named():
    unseen = {"torch": "2.9.0", "npu": []}
    assert doctor.check_devices(unseen, ["npu"]).fix == "see what npu-smi info says"
    assert doctor.check_torch_npu({"torch": "2.9.0"}, ["npu"]).state is State.FAULT
    assert doctor.check_devices({"torch": "2.9.0", "cuda": []}, ["cuda"]).state is State.WARNING  # it may be for games


def test_cann_is_named_with_its_version_and_missed_only_by_an_npu(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "none"))
    assert doctor.check_cann([]).state is State.OK
    assert doctor.check_cann(["npu"]).state is State.FAULT
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    (tmp_path / "version.cfg").write_text("# CANN\ntoolkit_running_version=[8.3.RC1:8.3.RC1]\n")
    assert doctor.check_cann(["npu"]) == doctor.Check("CANN", State.OK, f"8.3.RC1 in {tmp_path}")


def newer(path):
    Store.open(path, create=True).close()
    query(path, "pragma user_version = 1000")


def damaged(path):
    Store.open(path, create=True).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_text("once upon a time\n" * 20), "is not a SQLite database"),
        (lambda path: query(path, "create table t (x)"), "database of another program"),
        (newer, "of a newer geglu-tune (schema 1000"),
        (damaged, "is damaged"),
        (Path.mkdir, "is not a file"),
    ],
    ids=["text", "foreign", "newer", "damaged", "folder"],
)
def test_a_database_that_cannot_be_used_is_named(tmp_path, make, says):
    path = tmp_path / "some.db"
    make(path)
    before = contents(tmp_path)
    check = doctor.check_database(path)
    assert check.state is State.FAULT
    assert says in check.detail
    assert str(path) in check.detail
    assert check.fix
    assert contents(tmp_path) == before


def test_a_database_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    assert doctor.check_database(tmp_path / "none" / "a.db").fix == "create it"
    (tmp_path / "file").touch()
    assert "Not a directory" in doctor.check_database(tmp_path / "file" / "a.db").detail
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    check = doctor.check_database()
    assert check.state is State.FAULT
    assert "Not a directory" in check.detail


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o666, 0o555)], ids=["file", "folder"])
def test_a_read_only_database_is_named(file, folder):
    """Asked as somebody else where the tests run as root, who may write everything."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.db"
        assert doctor.check_database(path).state is State.OK  # imports what somebody else may not be able to read
        Store.open(path, create=True).close()
        path.chmod(file)
        Path(name).chmod(folder)
        with unprivileged():
            check = doctor.check_database(path)
        Path(name).chmod(0o755)
    assert check.state is State.FAULT
    assert "readonly database" in check.detail or "unable to open" in check.detail
    assert str(path) in check.detail
    assert "--db" in check.fix


def test_a_sound_database_is_left_as_it_is(tmp_path):
    path = tmp_path / "a.db"
    assert doctor.check_database(path).detail == f"none yet; a sweep makes {path}"
    Store.open(path, create=True).close()
    before = contents(tmp_path)
    assert doctor.check_database(path).detail == f"{path} can be read and written, schema {SCHEMA_VERSION}"
    assert contents(tmp_path) == before
    old = Path(__file__).parents[1] / "store" / "assets" / "version-1.sqlite"
    path.write_bytes(old.read_bytes())
    assert doctor.check_database(path).detail.endswith(f"schema 1, which the next sweep brings to {SCHEMA_VERSION}")
    assert path.read_bytes() == old.read_bytes()


def test_a_card_needs_tritons_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file"))
    assert doctor.check_compile_cache([]).state is State.OK
    check = doctor.check_compile_cache(["npu"])
    assert check.state is State.FAULT
    assert f"Triton's: {tmp_path}/file cannot be written" in check.detail
