"""What lies where in UB: each buffer with its contents, its life within a tile, and who shares its bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from geglu_tune.devices.virtual.explain.listing import Instruction
from geglu_tune.devices.virtual.model.interpret import Memory
from geglu_tune.devices.virtual.model.program import BITS


@dataclass(frozen=True, slots=True)
class UbBuffer:
    """Bytes of UB that instructions use as one type. A buffer that is used anew for another value is one buffer."""

    number: int
    """Its row in the map, from 1; rows go by address."""
    address: int
    bytes: int
    dtype: str
    tensors: tuple[str, ...]
    """Of which tensors it holds tiles, in order; none for a temporary."""
    turns: tuple[int, ...]
    """In which tiles of a period it is used: (0,) and (1,) are the two halves of a double buffer."""
    first: Instruction
    """The instruction that writes it first in a tile, by number, and the one that touches it last."""
    last: Instruction
    shares: tuple[int, ...] = ()
    """Rows with which it has bytes in common."""

    @property
    def end(self) -> int:
        return self.address + self.bytes


@dataclass(frozen=True)
class UbMap:
    """The buffers of a program in its steady state."""

    buffers: tuple[UbBuffer, ...]

    def of(self, memory: Memory) -> UbBuffer:
        """The buffer that an operand is in."""
        return next(buffer for buffer in self.buffers if _key(memory) == (buffer.address, buffer.bytes, buffer.dtype))

    def of_tensor(self, tensor: str) -> list[UbBuffer]:
        """The buffers that tiles of a tensor go through: two where it is double-buffered."""
        return [buffer for buffer in self.buffers if tensor in buffer.tensors]

    def overlap(self, one: UbBuffer, other: UbBuffer) -> bool:
        """Whether two buffers have bytes in common; a buffer has them with itself."""
        return one.number == other.number or other.number in one.shares


def map_ub(tiles: Sequence[Iterable[Instruction]]) -> UbMap:
    """Map the UB from the instructions of consecutive tiles, as many as it takes for the addresses to repeat."""
    users: dict[tuple[int, int, str], list[tuple[int, Instruction]]] = defaultdict(list)
    tensors: dict[tuple[int, int, str], dict[str, None]] = defaultdict(dict)
    for turn, instructions in enumerate(tiles):
        for instruction in instructions:
            for memory in (*instruction.reads, *instruction.writes):
                users[_key(memory)].append((turn, instruction))
                if instruction.tensor:
                    tensors[_key(memory)][instruction.tensor] = None
    keys = sorted(users)
    return UbMap(tuple(_buffer(key, keys, users[key], tuple(tensors[key])) for key in keys))


def _key(memory: Memory) -> tuple[int, int, str]:
    return memory.base, -(-memory.limit * BITS[memory.dtype] // 8), memory.dtype


def _buffer(
    key: tuple[int, int, str],
    keys: Sequence[tuple[int, int, str]],
    users: Sequence[tuple[int, Instruction]],
    tensors: tuple[str, ...],
) -> UbBuffer:
    address, size, dtype = key
    by_number = sorted((instruction for _, instruction in users), key=lambda instruction: instruction.number)
    return UbBuffer(
        number=keys.index(key) + 1,
        address=address,
        bytes=size,
        dtype=dtype,
        tensors=tensors,
        turns=tuple(sorted({turn for turn, _ in users})),
        first=by_number[0],
        last=by_number[-1],
        shares=tuple(
            number
            for number, other in enumerate(keys, start=1)
            if other != key and other[0] < address + size and address < other[0] + other[1]
        ),
    )
