"""An answer to a lookup as flat JSON values: what `lookup --json` prints and the service sends."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geglu_tune.runtime.served import ServedTiling
    from geglu_tune.tiling import Workload


def record_of(workload: Workload, served: ServedTiling) -> dict[str, object]:
    """Every field of the question, of the tiling and of why it is the answer."""
    return {
        "kernel": workload.kernel,
        "shape": workload.shape_text,
        "n": workload.n,
        "dtype": workload.dtype,
        "device": served.soc,
        "block_size": served.block_size,
        "programs": served.programs,
        "multibuffer": served.multibuffer,
        "form": served.form,
        "loop_order": served.loop_order,
        "origin": served.origin,
        "source": served.source,
        "time_us": served.time_us,
        "tuned_n": served.tuned_n,
        "distance": served.distance,
        "reason": served.reason,
        "row": None if served.row is None else dict(served.row),
    }
