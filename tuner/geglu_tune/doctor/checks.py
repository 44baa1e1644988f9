"""Whether this machine is set up for what it can do: one check after the other, each with its fix.

A fault keeps a command of geglu-tune from working here, a warning leaves something out. Nothing is changed, and what
may fail or hang when it is imported is imported in a process of its own.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import Distribution, PackagePath
from pathlib import Path
from typing import Any

from geglu_tune import paths
from geglu_tune.devices import kinds_present
from geglu_tune.devices.profiles import shipped_profile
from geglu_tune.doctor.probes import Probe
from geglu_tune.errors import GegluTuneError
from geglu_tune.runtime import cann
from geglu_tune.runtime.dbfile import NAME_ANOTHER, SCHEMA_VERSION, has_database
from geglu_tune.runtime.heuristics import ub_bits_from_environment
from geglu_tune.runtime.socs import DEFAULT_SOC

_FIRST_PYTHON_WITHOUT_ASCEND = (3, 12)
"""triton-ascend 3.2.0 has wheels for Python up to 3.11."""
_STOCK_TRITONS = ("triton", "pytorch-triton", "triton-nightly")
_INSTALL_ASCEND = "pip install 'geglu-tune[ascend]' in Python 3.10 or 3.11"
_INSTALL_NPU = "pip install 'geglu-tune[npu]' in Python 3.10 or 3.11"
_SOURCE_CANN = "source CANN's set_env.sh"
_MONITORS = {"npu": "npu-smi info", "cuda": "nvidia-smi"}

Facts = Mapping[str, Any]
"""What a probe reported."""


class State(str, Enum):
    """What a check found."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what was found, and what to do about it."""

    name: str
    state: State
    detail: str
    fix: str = ""


def examine(database: Path | None = None) -> Iterator[Check]:
    """All checks, the quick ones first; the database is $GEGLU_TUNE_DB's or the default if none is named."""
    cards = kinds_present()
    with closing(Probe("cards")) as of_cards, closing(Probe("compiler")) as of_compiler:
        yield check_python(cards)
        yield check_triton(cards)
        yield check_triton_ascend(cards)
        yield check_cann(cards)
        yield check_database(database)
        yield check_compile_cache(cards)
        yield check_compiler(of_compiler.facts(), cards)
        facts = of_cards.facts()
        yield check_torch(facts, cards)
        yield check_torch_npu(facts, cards)
        yield check_devices(facts, cards)
        yield check_ub(facts, cards)


def check_python(cards: Collection[str]) -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= _FIRST_PYTHON_WITHOUT_ASCEND:
        state = _fault_if_ascend(cards)
        detail = f"{version}: triton-ascend has no wheel for it, so neither an NPU nor the virtual device can be used"
        return Check("python", state, detail, "make the environment with Python 3.10 or 3.11")
    return Check("python", State.OK, f"{version} in {sys.prefix}")


def check_triton(cards: Collection[str]) -> Check:
    """Whose files `import triton` loads: stock triton and triton-ascend both install themselves under that name."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return Check("triton", State.FAULT, "nothing is installed under that name", _install(cards))
    folder = Path(spec.origin).parent.resolve()
    ascend = _distribution("triton-ascend")
    stock = next(filter(None, map(_distribution, _STOCK_TRITONS)), None)
    reinstall = f"pip uninstall -y {stock.name if stock else 'triton'} triton-ascend, then {_install(cards)}"
    if ascend and stock:
        names = f"{_named(stock)} and {_named(ascend)}"
        if _triton_folder(ascend) == _triton_folder(stock):
            detail = f"{names} are both in {folder} and have overwritten each other's files"
            return Check("triton", State.FAULT, detail, reinstall)
        if _triton_folder(ascend) != folder:
            return Check("triton", State.FAULT, f"{folder} of {_named(stock)} hides {_named(ascend)}", reinstall)
    if ascend and _triton_folder(ascend) == folder:
        if lost := _lost_files(ascend):
            detail = f"of {_named(ascend)}'s files {len(lost)} are missing or another's, such as {lost[0]}"
            return Check("triton", State.FAULT, detail, reinstall)
        return Check("triton", State.OK, f"{_named(ascend)} owns the import name")
    if (folder / "backends" / "ascend").is_dir():
        return Check("triton", State.OK, f"{folder} owns the import name and can compile for Ascend")
    owner = _named(stock) if stock else folder
    hidden = f"; it hides {_named(ascend)}" if ascend else ""
    detail = f"{owner} owns the import name and compiles for CUDA alone{hidden}"
    state = State.OK if stock and not hidden and "cuda" in cards else State.FAULT
    return Check("triton", state, detail, reinstall if state is State.FAULT else "")


def check_triton_ascend(cards: Collection[str]) -> Check:
    found = _distribution("triton-ascend")
    if found is None:
        detail = "not installed: neither an NPU nor the virtual device can be used"
        return Check("triton-ascend", _fault_if_ascend(cards), detail, _INSTALL_ASCEND)
    wanted = _pinned("triton-ascend")
    if wanted not in ("", found.version):
        detail = f"{found.version}; geglu-tune is made for {wanted}"
        return Check("triton-ascend", State.WARNING, detail, f"pip install triton-ascend=={wanted}")
    return Check("triton-ascend", State.OK, found.version)


def check_cann(cards: Collection[str]) -> Check:
    if not Path(cann.home()).is_dir():
        if "npu" in cards:
            return Check("CANN", State.FAULT, f"none in {cann.home()}", f"install CANN, then {_SOURCE_CANN}")
        return Check("CANN", State.OK, "not installed; only an NPU needs it")
    detail = f"{cann.toolkit_version()} in {cann.home()}"
    if "ASCEND_HOME_PATH" not in os.environ:
        return Check("CANN", _fault_if_npu(cards), f"{detail}, but its environment is not set", _SOURCE_CANN)
    return Check("CANN", State.OK, detail)


def check_database(named: Path | None = None) -> Check:
    """Readable, writable, and of a schema that this geglu-tune knows."""
    from geglu_tune.store.opening import examine as examine_file

    try:
        path = named or Path(paths.database_path())
        if not has_database(path):
            return _check_new_database(path)
        version = examine_file(path)
    except GegluTuneError as error:
        detail, _, fix = str(error).partition("; ")
        return Check("database", State.FAULT, detail, fix or NAME_ANOTHER)
    except OSError as error:
        return Check("database", State.FAULT, f"cannot read {path}: {error.strerror}", NAME_ANOTHER)
    older = f", which the next sweep brings to {SCHEMA_VERSION}" if version < SCHEMA_VERSION else ""
    return Check("database", State.OK, f"{path} can be read and written, schema {version}{older}")


def _check_new_database(path: Path) -> Check:
    if path != Path(paths.default_database_path()) and not path.parent.is_dir():
        return Check("database", State.FAULT, f"none can be made: there is no folder {path.parent}", "create it")
    if reason := _why_not_writable(path.parent):
        return Check("database", State.FAULT, f"none can be made: {reason}", NAME_ANOTHER)
    return Check("database", State.OK, f"none yet; a sweep makes {path}")


def check_compile_cache(cards: Collection[str]) -> Check:
    """The virtual device only gets slow without its own cache; a card does not compile without Triton's."""
    from geglu_tune.devices.virtual.cache import folder

    if cards and (reason := _why_not_writable(_triton_cache())):
        return Check("compile cache", State.FAULT, f"Triton's: {reason}", "set TRITON_CACHE_DIR to a folder of yours")
    if reason := _why_not_writable(folder()):
        fix = "make it writable, or set XDG_CACHE_HOME"
        return Check("compile cache", State.WARNING, f"{reason}: each sweep compiles everything anew", fix)
    return Check("compile cache", State.OK, f"{folder()} can be written")


def check_compiler(facts: Facts, cards: Collection[str]) -> Check:
    """That a kernel was compiled for the virtual device, for real."""
    if facts.get("status") == "ok":
        detail = f"bishengir-compile {facts['versions']['bishengir-compile']} compiled a kernel"
        return Check("compiler", State.OK, f"{detail} in {facts['seconds']:.1f} s ({facts['compiler']})")
    if "missing" in facts:
        detail = facts["missing"].partition("; ")[0]
    elif "status" in facts:
        detail = f"{facts['compiler']} cannot compile a kernel: {facts['reason'] or facts['status']}"
    else:
        detail = f"compiling a kernel failed: {facts.get('end', 'no answer')}"
    fix = "pip install --force-reinstall 'geglu-tune[ascend]' in Python 3.10 or 3.11"
    return Check("compiler", _fault_if_ascend(cards), detail, fix)


def check_torch(facts: Facts, cards: Collection[str]) -> Check:
    if "torch" in facts:
        return Check("torch", State.OK, facts["torch"])
    if importlib.util.find_spec("torch") is None:
        if cards:
            return Check("torch", _fault_if_npu(cards), "not installed, but the card needs it", _install(cards))
        return Check("torch", State.OK, "not installed; only a card needs it")
    reason = facts.get("torch_error") or facts.get("end", "no answer")
    return Check("torch", State.FAULT, f"does not load: {reason}", "pip install --force-reinstall torch")


def check_torch_npu(facts: Facts, cards: Collection[str]) -> Check:
    found = _distribution("torch_npu")
    if found is None and importlib.util.find_spec("torch_npu") is None:
        if "npu" in cards:
            return Check("torch_npu", State.FAULT, "not installed, but the NPU needs it", _INSTALL_NPU)
        return Check("torch_npu", State.OK, "not installed; only an NPU needs it")
    version = found.version if found else "of unknown version"
    torch = str(facts.get("torch", ""))
    mismatch = (
        f"; it is for another torch than {torch}" if found and torch and _release(version) != _release(torch) else ""
    )
    one_version = f"install torch {_release(version)}, or torch_npu {_release(torch)}" if mismatch else ""
    if "torch_npu" in facts:
        return Check("torch_npu", State.WARNING if mismatch else State.OK, f"{version}{mismatch}", one_version)
    reason = facts.get("torch_npu_error") or facts.get("end") or "torch does not load"
    detail = f"{version} does not load{mismatch}: {reason}"
    fixes = [one_version] if mismatch else []
    if "npu" in cards:
        return Check("torch_npu", State.FAULT, detail, "; ".join([*fixes, f"install CANN, then {_SOURCE_CANN}"]))
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        return Check("torch_npu", State.WARNING, f"{detail}; harmless while TORCH_DEVICE_BACKEND_AUTOLOAD is 0")
    fixes.append(f"{_SOURCE_CANN}, or without an NPU: pip uninstall torch_npu, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0")
    return Check("torch_npu", State.FAULT, f"{detail}; so `import torch` fails", "; ".join(fixes))


def check_devices(facts: Facts, cards: Collection[str]) -> Check:
    names = [f"{kind}:{index} {name}" for kind in _MONITORS for index, name in enumerate(facts.get(kind, ()))]
    for kind in cards:
        if not facts.get(kind):
            reason = facts.get(f"{kind}_error", "torch sees none; the checks above may tell why")
            detail = f"there is a card in /dev, but no {kind}: {reason}"
            return Check("devices", _fault_if_npu(cards), detail, f"see what {_MONITORS[kind]} says")
    if not names:
        return Check("devices", State.OK, f"no card: sweeps use the virtual {DEFAULT_SOC} (modelled times)")
    return Check("devices", State.OK, ", ".join(names))


def check_ub(facts: Facts, cards: Collection[str]) -> Check:
    """How large a core's buffer is, and who says so."""
    text = os.environ.get("ASCEND_UB_CAPACITY_BITS")
    bits = ub_bits_from_environment()
    if text and bits is None:
        detail = f"ASCEND_UB_CAPACITY_BITS is '{text}', which is no positive whole number and is ignored"
        return Check("UB", State.WARNING, detail, "unset it, or set 1572864 for a 910B4")
    if facts.get("npu") and "ub_bytes" not in facts:
        fix = "add a profile to geglu_tune/devices/profiles"
        return Check("UB", State.FAULT, facts.get("npu_error", "the NPU does not tell"), fix)
    if "ub_bytes" in facts:
        return Check("UB", State.OK, f"{facts['ub_bytes']:,} bytes, from {facts['ub_from']}")
    if bits is not None:
        return Check("UB", State.OK, f"{bits // 8:,} bytes, from ASCEND_UB_CAPACITY_BITS")
    virtual = shipped_profile(DEFAULT_SOC).device
    return Check("UB", State.OK, f"{virtual.ub_bytes:,} bytes, from the profile of the virtual {virtual.soc}")


def _install(cards: Collection[str]) -> str:
    """What brings the right triton for this machine."""
    if "npu" in cards:
        return _INSTALL_NPU
    return "pip install 'geglu-tune[cuda]'" if "cuda" in cards else _INSTALL_ASCEND


def _fault_if_ascend(cards: Collection[str]) -> State:
    """Of what an Ascend needs, real or virtual: with a GPU and no triton-ascend a machine is complete without it."""
    return State.WARNING if list(cards) == ["cuda"] and _distribution("triton-ascend") is None else State.FAULT


def _fault_if_npu(cards: Collection[str]) -> State:
    """Of what a card needs: a GPU may be there for something else."""
    return State.FAULT if "npu" in cards else State.WARNING


def _distribution(name: str) -> Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _named(distribution: Distribution) -> str:
    return f"{distribution.name} {distribution.version}"


def _triton_folder(distribution: Distribution) -> Path:
    return Path(str(distribution.locate_file("triton"))).resolve()


def _lost_files(distribution: Distribution) -> list[str]:
    """Files that are not as installed: sources by their hash, libraries, which have up to 100 MB, by their size."""
    return [str(file) for file in distribution.files or () if not _is_intact(file)]


def _is_intact(file: PackagePath) -> bool:
    path = Path(str(file.locate()))
    try:
        if file.size is not None and path.stat().st_size != file.size:
            return False
        if file.suffix != ".py" or file.hash is None or file.hash.mode != "sha256":
            return True
        digest = hashlib.sha256(path.read_bytes()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value
    except OSError:
        return file.suffix == ".pyc"  # compiled ones come and go


def _pinned(name: str) -> str:
    """The one version of a package that geglu-tune asks for."""
    found = re.search(rf"^{name}==([\w.]+)", "\n".join(importlib.metadata.requires("geglu-tune") or ()), re.MULTILINE)
    return found[1] if found else ""


def _release(version: str) -> str:
    """2.9.0.post4 and 2.9.0+cpu are 2.9.0."""
    found = re.match(r"\d+\.\d+\.\d+", version)
    return found[0] if found else version


def _triton_cache() -> Path:
    """Where Triton keeps what it compiled."""
    named = os.environ.get("TRITON_CACHE_DIR", "").strip()
    return Path(named) if named else Path(os.environ.get("TRITON_HOME", "~")).expanduser() / ".triton" / "cache"


def _why_not_writable(folder: Path) -> str:
    """Why a folder, or one to be made there, cannot be written. Tried out: permissions do not hold for root."""
    try:
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror})"
