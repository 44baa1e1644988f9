"""The answer to a lookup (standard library alone)."""

from __future__ import annotations

from geglu_kernels.launch import Tiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_set = object.__setattr__


class ServedTiling(Tiling):
    """A tiling, and why it is the answer.

    Attributes:
        origin: exact: tuned for just this; nearest: tuned for another size or before something changed; default:
            Liger's.
        source: measured or virtual: where the time that chose it comes from; None for a default.
        soc: the device it is meant for.
        row: the tuned row it comes from, by the names of the view best_tilings (study_id, trial_number, n, time_us,
            toolchain, ...), and the database that holds it; None for a default.
        distance: |log(n / row["n"])|: 0 for exact, None for a default.
        reason: why this and not another, in one line.

    >>> from geglu_tune import lookup
    >>> served = lookup("swiglu_forward", shape=4096, dtype="fp32", device="Ascend910B4")
    >>> served.origin, served.source, served.soc
    ('default', None, 'Ascend910B4')
    """

    __slots__ = ("distance", "origin", "reason", "row", "soc", "source")

    origin: str
    source: str | None
    soc: str
    row: Mapping[str, Any] | None
    distance: float | None
    reason: str

    def __init__(
        self,
        tiling: Tiling,
        origin: str,
        soc: str,
        reason: str,
        row: Mapping[str, Any] | None = None,
        distance: float | None = None,
    ) -> None:
        Tiling.__init__(self, *tiling.values)
        _set(self, "origin", origin)
        _set(self, "source", None if row is None else row["source"])
        _set(self, "soc", soc)
        _set(self, "row", row)
        _set(self, "distance", distance)
        _set(self, "reason", reason)

    @property
    def time_us(self) -> float | None:
        """Time that the tuned row holds, for `tuned_n` elements."""
        return None if self.row is None else self.row["time_us"]

    @property
    def tuned_n(self) -> int | None:
        """How many elements it was tuned for."""
        return None if self.row is None else self.row["n"]

    def __repr__(self) -> str:
        names = ("block_size", "programs", "multibuffer", "form", "loop_order", "origin")
        shown = [f"{name}={getattr(self, name)!r}" for name in names]
        if self.num_warps is not None:
            shown.append(f"num_warps={self.num_warps}")
        if self.row is not None:
            shown.append(f"source={self.source!r}, time_us={self.time_us:.6g}")
        if self.distance:
            shown.append(f"tuned_n={self.tuned_n}, distance={self.distance:.3g}")
        shown.append(f"soc={self.soc!r}")
        return f"ServedTiling({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            ServedTiling,
            (
                self.replace(),
                self.origin,
                self.soc,
                self.reason,
                None if self.row is None else dict(self.row),
                self.distance,
            ),
        )
