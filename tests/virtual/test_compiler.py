"""The compiler's verdicts: programs, refusals with their reasons, and compilers that misbehave."""

import re
import resource
import stat
from pathlib import Path

import pytest

from geglu_kernels.specs import KERNELS
from geglu_tune.devices.virtual import compiler
from geglu_tune.devices.virtual.compiler import compile_kernel
from geglu_tune.devices.virtual.model.library import routine
from geglu_tune.devices.virtual.model.program import Call, UnknownOperationError
from geglu_tune.devices.virtual.model.reader import read_program
from geglu_tune.devices.virtual.toolchain import find_toolchain
from geglu_tune.errors import GegluTuneError
from geglu_tune.tiling import Status
from virtual.programs import FORWARD, compiled, program


def test_forms_differ_in_vector_instructions():
    """Liger's arithmetic takes 21 a tile; a form that takes no fewer has no reason to be."""

    def calls(form: str) -> int:
        called = [routine(node.name) for node in program(form=form).walk() if isinstance(node, Call)]
        return sum(one.pipe == "V" and one.family != "fill" for one in called)

    assert calls("tanh") == 21
    assert all(calls(form) <= 14 for form in KERNELS["geglu_forward"].forms if form != "tanh")


def test_ub_use_is_read_off_the_planned_addresses():
    assert program(block_size=8192).ub_bytes == 196_608


def test_an_overflow_tells_what_is_needed_and_what_there_is():
    verdict = compiled(block_size=32768)
    assert verdict.status is Status.UB_OVERFLOW
    assert re.fullmatch(r"needs \d{7} bits of UB, 1572864 are there", verdict.reason)


def test_what_the_compiler_turns_off_by_itself_is_kept():
    assert "enable-auto-multi-buffer off: UB overflow" in compiled(block_size=32768).notes


def test_a_kernel_for_64_bit_sizes_compiles():
    assert program(int64=True).ub_bytes == program().ub_bytes


@pytest.fixture
def fake_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a script in the place of CANN's bishengir-compile. It stands for compiler faults that cannot be had here."""

    def install(body: str) -> None:
        script = tmp_path / "bishengir-compile"
        script.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo bishengir-compile 9.9.9; exit; fi\n{body}\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        find_toolchain.cache_clear()

    yield install
    find_toolchain.cache_clear()


def test_the_compiler_on_the_path_is_used_and_named(fake_compiler):
    fake_compiler("exit 1")
    assert find_toolchain().versions["bishengir-compile"] == "9.9.9"


def test_the_overflow_of_a_released_compiler_is_understood(fake_compiler):
    """triton-ascend#302: fp32 tiles of 48000 elements, double-buffered."""
    fake_compiler(
        "echo 'loc(\"/tmp/tmpx/kernel.ttadapter.mlir\":2:1): error: Failed to run BiShengHIR pipeline' >&2\n"
        "echo 'error: ub overflow, requires 3072000 bits while 1572864 bits available! (possible reason: "
        "large or block number is more than what user expect due to multi-buffer feature is enabled)' >&2\nexit 1"
    )
    verdict = compile_kernel(FORWARD)
    assert (verdict.status, verdict.reason) == (
        Status.UB_OVERFLOW,
        "needs 3072000 bits of UB, 1572864 are there",
    )


def test_a_refusal_of_another_kind_keeps_the_compilers_last_words(fake_compiler):
    fake_compiler("echo 'error: no such pass' >&2; exit 1")
    verdict = compile_kernel(FORWARD)
    assert (verdict.status, verdict.reason) == (Status.COMPILE_FAILED, "bishengir-compile: error: no such pass")


def test_a_crash_of_the_compiler_is_a_failed_trial(fake_compiler):
    fake_compiler("kill -SEGV $$")
    verdict = compile_kernel(FORWARD)
    assert (verdict.status, verdict.reason) == (Status.CRASHED, "bishengir-compile died of SIGSEGV")


def test_a_compiler_that_hangs_is_killed(fake_compiler, monkeypatch):
    monkeypatch.setattr(compiler, "COMPILE_TIMEOUT_S", 1.0)
    fake_compiler("sleep 600")
    assert compile_kernel(FORWARD).status is Status.TIMEOUT


def test_a_gigabyte_of_log_takes_no_gigabyte(fake_compiler):
    fake_compiler("head -c 1000000000 /dev/zero | tr '\\0' x; echo; echo 'error: that was all' >&2; exit 1")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdict = compile_kernel(FORWARD)
    assert (verdict.status, verdict.reason) == (Status.COMPILE_FAILED, "bishengir-compile: error: that was all")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_what_is_said_at_the_beginning_of_a_long_log_is_understood(fake_compiler):
    fake_compiler("echo 'ub overflow, requires 9 bits while 8 bits available'; head -c 9000000 /dev/zero; exit 1")
    assert compile_kernel(FORWARD).status is Status.UB_OVERFLOW


def test_a_compiler_that_closes_its_output_and_hangs_is_killed(fake_compiler, monkeypatch):
    monkeypatch.setattr(compiler, "COMPILE_TIMEOUT_S", 1.0)
    fake_compiler("exec >&- 2>&-; sleep 600")
    assert compile_kernel(FORWARD).status is Status.TIMEOUT


def test_a_compiler_that_prints_rubbish_is_a_failed_trial(fake_compiler):
    fake_compiler("head -c 100000 /dev/urandom; printf '\\033[31mred\\n'; exit 1")
    verdict = compile_kernel(FORWARD)
    assert verdict.status is Status.COMPILE_FAILED
    assert verdict.reason.isprintable()


@pytest.mark.parametrize(
    "body", ["head -c 5000 /dev/urandom", "echo 'module { }'", "true"], ids=["noise", "empty", "no"]
)
def test_a_program_that_is_none_is_a_failed_trial(fake_compiler, body):
    saving = (
        'for word; do case "$word" in --save-temps=*) folder="${word#--save-temps=}";; esac; done; mkdir -p "$folder"'
    )
    fake_compiler(f'{saving}; ({body}) > "$folder/module.hivm.opt.mlir"')
    verdict = compile_kernel(FORWARD)
    assert verdict.status is Status.COMPILE_FAILED
    assert verdict.reason.isprintable()


def test_a_compiler_that_is_gone_is_told_and_is_no_verdict(fake_compiler, tmp_path: Path):
    fake_compiler("exit 1")
    find_toolchain()
    (tmp_path / "bishengir-compile").unlink()
    with pytest.raises(GegluTuneError, match=r"bishengir-compile does not run .*: install the compilers again"):
        compile_kernel(FORWARD)


@pytest.mark.parametrize(
    ("body", "says"),
    [("exit 3", "does not run"), ("kill -SEGV $$", "does not run"), ("head -c 500 /dev/urandom", "")],
    ids=["fails", "crashes", "rubbish"],
)
def test_a_compiler_that_cannot_say_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, says: str):
    script = tmp_path / "bishengir-compile"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    find_toolchain.cache_clear()
    try:
        told = find_toolchain().versions["bishengir-compile"]
    except GegluTuneError as error:
        told = str(error)
    finally:
        find_toolchain.cache_clear()
    assert says in told
    assert told.isprintable()
    assert len(told) < 400


def test_a_program_with_an_unknown_operation_is_refused_by_name():
    text = """
    "builtin.module"() ({
      "func.func"() <{function_type = () -> (), sym_name = "k"}> ({
        "hivm.hir.vfrobnicate"() : () -> ()
        "func.return"() : () -> ()
      }) {hacc.entry} : () -> ()
    }) : () -> ()
    """
    with pytest.raises(UnknownOperationError, match=r"hivm\.hir\.vfrobnicate"):
        read_program(text)
