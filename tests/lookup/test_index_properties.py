"""The index against a model in a few lines, for whatever a database holds and whatever is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from geglu_kernels.grid import MAX_PROGRAMS, ceil_div
from geglu_kernels.launch import largest_block
from geglu_kernels.specs import KERNELS
from geglu_tune.runtime.index import Index, ask
from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.store import Store
from geglu_tune.tiling import Source, Tiling, Workload
from store.builders import DEVICE, MEASURED, VIRTUAL, keep_best

ROWS = st.tuples(
    st.sampled_from(sorted(KERNELS)),
    st.sampled_from([1, 300, 11008, 90_177_536, 2**31]),
    st.sampled_from(["bf16", "fp32"]),
    st.sampled_from(Source),
    st.sampled_from([500.0, 600.0, 700.0]),
    st.sampled_from([256, 2048, 8192, 16384]),
)
QUESTIONS = st.tuples(
    st.sampled_from(sorted(KERNELS)),
    st.sampled_from([1, 300, 11008, 90_177_536, 2**31]) | st.integers(1, 2**40),
    st.sampled_from(["bf16", "fp32"]),
)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(ROWS, max_size=8), questions=st.lists(QUESTIONS, min_size=1, max_size=6))
def test_an_answer_is_the_best_row_there_is_and_can_always_be_launched(rows, questions):
    model: dict = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with Store.open(path, create=True) as store:
            for seed, (kernel, n, dtype, source, time_us, block_size) in enumerate(rows):
                workload = Workload(kernel, (n,), dtype)
                provenance = MEASURED if source is Source.MEASURED else VIRTUAL
                provenance = replace(provenance, kernel_hash=kernel_hash(kernel))
                tiling = Tiling(block_size, 40, form=KERNELS[kernel].forms[0])
                keep_best(store, tiling, time_us, workload=workload, provenance=provenance, seed=seed)
                place = (source is not Source.MEASURED, time_us)
                model[kernel, n, dtype] = min(model.get((kernel, n, dtype), place), place)
        index = Index(str(path))
        for kernel, n, dtype in questions:
            served = index.answer(ask(kernel, (n,), dtype, DEVICE.soc))
            expected = model.get((kernel, n, dtype))
            if expected is not None:
                assert (served.origin, served.time_us) == ("exact", expected[1])
                assert served.source == ("virtual" if expected[0] else "measured")
            else:
                tuned = any(key[0] == kernel and key[2] == dtype for key in model)
                assert served.origin == ("nearest" if tuned else "default")
            assert served.form in KERNELS[kernel].forms
            assert 1 <= served.programs <= min(MAX_PROGRAMS, max(40, ceil_div(n, served.block_size)))
            assert served.block_size <= largest_block(DEVICE.ub_bytes, multibuffer=served.multibuffer)
        assert index.warning == ""
