"""An explanation as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from geglu_tune.devices.virtual.explain.analysis import Analysis
from geglu_tune.devices.virtual.explain.chain import links
from geglu_tune.devices.virtual.explain.explanation import Explanation, Refusal, Spread, spread_of
from geglu_tune.devices.virtual.explain.listing import Instruction
from geglu_tune.devices.virtual.explain.ubmap import UbBuffer
from geglu_tune.devices.virtual.explain.verdict import verdict
from geglu_tune.tiling import Source, Tiling, Workload

Json = dict[str, Any]


def of_explanation(explanation: Explanation) -> Json:
    """Times in microseconds, cycles of the core's clock, shares from 0 to 1."""
    asked, default = explanation.asked, explanation.default
    slower, _ = explanation.slower_draws
    return {
        **_heading(asked.workload, asked.tiling, asked.profile.device.soc),
        "status": "ok",
        "verdict": verdict(explanation),
        "notes": list(asked.notes),
        "time_us": _microseconds(asked),
        "draws": asked.seconds.size - 1,
        "default": _refusal(default) if isinstance(default, Refusal) else _default(default),
        "ratio": asdict(explanation.ratio) | {"slower_draws": slower} if explanation.ratio else None,
        "steady_state": _steady(asked),
        "critical_chain": _chain(asked),
        "ub": _ub(asked),
        "instructions": [asdict(count) for count in asked.op_counts],
    }


def of_refusal(refusal: Refusal, largest: int | None) -> Json:
    return {
        **_heading(refusal.workload, refusal.tiling, refusal.soc),
        **_refusal(refusal),
        "largest_block_size": largest,
    }


def _heading(workload: Workload, tiling: Tiling, soc: str) -> Json:
    return {
        "kernel": workload.kernel,
        "shape": workload.shape_text,
        "n": workload.n,
        "dtype": workload.dtype,
        "device": soc,
        "source": Source.VIRTUAL.value,
        **tiling.asdict(),
    }


def _refusal(refusal: Refusal) -> Json:
    return {
        **refusal.tiling.asdict(),
        "status": refusal.status.value,
        "reason": refusal.reason,
        "notes": list(refusal.notes),
        "needed_bytes": refusal.needed_bytes,
        "available_bytes": refusal.available_bytes,
    }


def _default(default: Analysis) -> Json:
    return {
        **default.tiling.asdict(),
        "status": "ok",
        "time_us": _microseconds(default),
        "steady_state": _steady(default),
    }


def _microseconds(analysis: Analysis) -> Json:
    spread = spread_of(analysis)
    return asdict(Spread(spread.nominal * 1e6, spread.low * 1e6, spread.high * 1e6))


def _steady(analysis: Analysis) -> Json:
    """Under the middle of every number, which comes to about the median time."""
    steady = analysis.steady
    return {
        "launch_us": float(analysis.seconds[0]) * 1e6,
        "tiles_of_busiest_core": analysis.tiles,
        "cycles_per_tile": steady.cycles,
        "clock_mhz": analysis.clock_hz / 1e6,
        "limit": steady.limit.value,
        "memory": analysis.memory,
        "dma_bytes_per_cycle": analysis.dma_rate,
        "resources": [asdict(resource) for resource in steady.resources],
        "scalar_instructions": steady.scalar_instructions,
    }


def _chain(analysis: Analysis) -> Json:
    turn = analysis.steady.turn
    return {
        "tiles": turn.tiles,
        "cycles": turn.cycles,
        "links": [
            {
                "pipe": link.pipe,
                "instructions": [_instruction(one) for one in link.instructions],
                "cycles": link.cycles,
                "event": link.event,
                "tiles_on": link.tiles_on,
            }
            for link in links(turn)
        ],
    }


def _ub(analysis: Analysis) -> Json:
    return {
        "used_bytes": analysis.program.ub_bytes,
        "available_bytes": analysis.profile.device.ub_bytes,
        "double_buffered": [tensor for tensor in analysis.tensors if len(analysis.ub.of_tensor(tensor)) > 1],
        "buffers": [_buffer(buffer) for buffer in analysis.ub.buffers],
    }


def _buffer(buffer: UbBuffer) -> Json:
    return {
        "number": buffer.number,
        "address": buffer.address,
        "bytes": buffer.bytes,
        "dtype": buffer.dtype,
        "tensors": list(buffer.tensors),
        "tiles": list(buffer.turns),
        "written": _instruction(buffer.first),
        "last_used": _instruction(buffer.last),
        "shares_bytes_with": list(buffer.shares),
    }


def _instruction(instruction: Instruction) -> Json:
    return {"number": instruction.number, "op": instruction.label}
