"""What to try first on an NPU: what the kernels' structure makes likely to be best (standard library alone).

A flat kernel's time depends on its tiling through few things: how many elements the busiest core gets, how many
programs are launched, what a tile costs, and how often the tiles fit in the UB. The last is a flight of cliffs: where a
BLOCK_SIZE no longer fits, the compiler gives up some of its buffers and tries again, so that the bytes of UB an element
fall in steps. The largest block before each step is worth a trial, and so are those that split n evenly among cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from geglu_kernels.grid import ceil_div
from geglu_kernels.specs import LOOP_ORDERS
from geglu_tune.search.space import Prior, Space, Variant
from geglu_tune.tiling import BLOCK_STEP, Measurement, Tiling

STRIDED, CONTIGUOUS = LOOP_ORDERS

FEW_ROUNDS = 4
"""Tiles a core up to which a launch is short: every program counts, and there is little to overlap."""
MANY_ROUNDS = 64
"""Tiles a core above which an uneven split costs too little to matter."""
EVEN_SPLITS = 4
"""How many even splits to try where tiles are few."""
LEAST_SPLIT = 2048
"""Elements below which a tile's own cost outweighs what a second tile a core could overlap."""
FEWER_PROGRAMS = (1.25, 1.5, 2.0, 3.0, 4.0)
"""How much larger than the best tile to try, for tiles that need fewer programs."""
NEAR = 1 / 16
"""How much smaller than a cliff an even split may be for the cliff itself to do: it is compiled for every size."""
PILOTS_BEST = 2
"""How many of the pilot's fastest tilings to try as they are."""
TIE = 0.005
"""Relative difference below which one form is as good as another."""

Trials = Mapping[Tiling, Measurement]
Cliffs = Mapping[bool, Sequence[int]]
"""By multibuffer: the largest BLOCK_SIZEs before the compiler gives up buffers, ascending."""


def promising(space: Space, default: Tiling, tried: Trials, priors: Sequence[Prior]) -> Iterator[Tiling]:
    """See `spaces.promising`."""
    plain = _plain(space, default, tried)
    yield from (space.grids(replace(plain, form=form))[0] for form in space.forms)
    earlier = {prior.tiling: prior.measurement for prior in priors}
    if not tried and not earlier:
        return
    form = _best_form(space, plain, tried, _best_form(space, plain, earlier, default.form))
    plain = replace(plain, form=form)
    yield space.grids(replace(plain, multibuffer=False))[0]
    cliffs = _all_cliffs(space, form, [*earlier.items(), *tried.items()])
    if not cliffs:
        return
    if space.workload.n <= FEW_ROUNDS * _cores(space) * max(cliffs[False]):
        yield from _short(space, plain, cliffs, tried)
    else:
        yield from _long(space, form, cliffs, tried)
    compiled = {Variant.of(tiling) for tiling in earlier}
    for tiling in _twists(space, tried):
        if not compiled or Variant.of(tiling) in compiled:
            yield tiling
    yield from (space.grids(Variant.of(tiling))[0] for tiling in _fastest(earlier)[:PILOTS_BEST])


def finer(space: Space, best: Tiling, most: int) -> list[Tiling]:
    """Up to so many tilings between the best and four times its BLOCK_SIZE, where a core gets few tiles.

    They cost a compile each and tell little of one another. But which is fastest depends on what a program costs to
    launch, and where that is not known any of them may be.
    """
    if space.workload.n > FEW_ROUNDS * _cores(space) * best.block_size:
        return []
    wanted = [best.block_size * 4 ** (step / most) for step in range(1, most + 1)]
    blocks = dict.fromkeys(round(block / BLOCK_STEP) * BLOCK_STEP for block in wanted)
    tilings = [_on(space, Variant.of(best), block) for block in blocks]
    return [tiling for tiling in tilings if not space.refusal(tiling)]


def _plain(space: Space, default: Tiling, tried: Trials) -> Variant:
    """The default in the space's bounds, halved for as long as nothing of its BLOCK_SIZE has run."""
    ran = {tiling.block_size for tiling, measurement in tried.items() if measurement.time_us}
    failed = {tiling.block_size for tiling in tried} - ran
    block = max(BLOCK_STEP, min(default.block_size, space.max_block(multibuffer=True)))
    while block in failed and block > BLOCK_STEP:
        block = max(BLOCK_STEP, block // 2 // BLOCK_STEP * BLOCK_STEP)
    return replace(Variant.of(default), block_size=block)


def _short(space: Space, plain: Variant, cliffs: Cliffs, tried: Trials) -> Iterator[Tiling]:
    """Where a core gets few tiles: even splits, then larger blocks, which need fewer programs."""
    merits = {buffered: _merit(replace(plain, multibuffer=buffered), tried) for buffered in (True, False)}
    if math.inf in merits.values():
        return
    variant = replace(plain, multibuffer=merits[True] <= merits[False], loop_order=STRIDED)
    largest = _beyond(cliffs[False])
    blocks = {block for limit in (largest, *cliffs[variant.multibuffer]) for block in _even_splits(space, limit)}
    splits = [_on(space, variant, block) for block in sorted(blocks, reverse=True)[:EVEN_SPLITS]]
    yield from splits
    tile_a_core = space.workload.n / _cores(space)
    if max(cliffs[False]) < tile_a_core <= 2 * max(cliffs[False]):  # one might do, if there are more cliffs
        yield _on(space, replace(variant, multibuffer=False), largest)
    best = _best(tried)
    if best is not None and all(tiling in tried or space.refusal(tiling) for tiling in splits):
        wider = [_nearest_rung(factor * best.block_size) for factor in FEWER_PROGRAMS]
        yield from (_on(space, variant, block) for block in wider if block <= largest)


def _long(space: Space, form: str, cliffs: Cliffs, tried: Trials) -> Iterator[Tiling]:
    """Where a core gets many tiles: the cliffs, then the best one's even splits, and a small tile."""
    for buffered, limits in cliffs.items():
        for limit in limits:
            split = next(iter(_even_splits(space, limit)), limit)
            block = limit if limit - split <= NEAR * limit else split
            yield space.grids(Variant(block, buffered, form, STRIDED))[0]
        yield space.grids(Variant(_beyond(limits), buffered, form, STRIDED))[0]
    best = _best(tried)
    if best is not None:
        limit = min((cliff for cliff in cliffs[best.multibuffer] if cliff >= best.block_size), default=best.block_size)
        yield from (_on(space, Variant.of(best), block) for block in _even_splits(space, limit))
    half = max(BLOCK_STEP, min(cliffs[True]) // 2 // BLOCK_STEP * BLOCK_STEP)
    yield space.grids(Variant(half, True, form, CONTIGUOUS))[0]


def _twists(space: Space, tried: Trials) -> Iterator[Tiling]:
    """The best so far with one choice changed."""
    best = _best(tried)
    if best is None:
        return
    variant = Variant.of(best)
    yield from space.grids(variant)
    yield space.grids(replace(variant, multibuffer=not variant.multibuffer))[0]
    yield from (space.grids(replace(variant, loop_order=order))[0] for order in LOOP_ORDERS)


def _even_splits(space: Space, limit: int) -> list[int]:
    """Two BLOCK_SIZEs of at most limit that give every core equally many tiles: as few as possible, and one more."""
    n, cores = space.workload.n, _cores(space)
    fewest = ceil_div(n, cores * limit)
    if fewest > MANY_ROUNDS:
        return []
    blocks = [ceil_div(ceil_div(n, cores * tiles), BLOCK_STEP) * BLOCK_STEP for tiles in (fewest, fewest + 1)]
    return [block for block in blocks if block >= LEAST_SPLIT or block == blocks[0]]


def _all_cliffs(space: Space, form: str, known: Sequence[tuple[Tiling, Measurement]]) -> Cliffs:
    """The cliffs of a form with and without multi-buffering; empty before one of each is known to fit."""
    cliffs = {buffered: _cliffs(space, form, buffered, known) for buffered in (True, False)}
    return cliffs if all(cliffs.values()) else {}


def _cliffs(space: Space, form: str, multibuffer: bool, known: Sequence[tuple[Tiling, Measurement]]) -> list[int]:
    """What fits at each number of bytes an element that was seen; where no compiler told, the largest that ran."""
    fit = [(t, m) for t, m in known if m.time_us and t.form == form and t.multibuffer is multibuffer]
    shares = {measurement.ub_bytes / tiling.block_size for tiling, measurement in fit if measurement.ub_bytes}
    limits = {int(space.device.ub_bytes / share) // BLOCK_STEP * BLOCK_STEP for share in shares}
    largest = {tiling.block_size for tiling, _ in sorted(fit, key=lambda trial: trial[0].block_size)[-1:]}
    return sorted(limit for limit in limits or largest if limit)


def _beyond(cliffs: Sequence[int]) -> int:
    """The first round BLOCK_SIZE after the last cliff known: whether anything fits there is to be found out."""
    return next(rung for rung in _ladder(4 * max(cliffs)) if rung > max(cliffs))


def _ladder(most: int) -> list[int]:
    """Round BLOCK_SIZEs up to most, four to an octave: studies of many sizes share their compiles."""
    rungs = (BLOCK_STEP * 2**octave * quarters / 4 for octave in range(most.bit_length()) for quarters in (4, 5, 6, 7))
    return [int(rung) for rung in rungs if rung <= most and rung % BLOCK_STEP == 0]


def _nearest_rung(block: float) -> int:
    return min(_ladder(2 * int(block)), key=lambda rung: abs(math.log(rung / block)))


def _cores(space: Space) -> int:
    return max(1, space.device.vector_cores)


def _on(space: Space, variant: Variant, block: int) -> Tiling:
    return space.grids(replace(variant, block_size=block))[0]


def _best_form(space: Space, plain: Variant, trials: Trials, earlier: str) -> str:
    """The form that is best where nothing else differs; the earlier one, unless another is clearly better."""
    merits = {form: _merit(replace(plain, form=form), trials) for form in {earlier: None, **dict.fromkeys(space.forms)}}
    best = min(merits, key=lambda form: merits[form])
    return earlier if merits[earlier] <= merits[best] * (1 + TIE) else best


def _merit(variant: Variant, trials: Trials) -> float:
    """A variant's time on its better grid and, counting alike, how long it might be; infinite if it was not timed.

    Where memory is the limit, times tell forms apart by how far each is from being the limit itself.
    """
    timed = (m for tiling, m in trials.items() if Variant.of(tiling) == variant and m.time_us)
    return min((m.score * (1 + (m.high_us or m.time_us) / m.time_us) for m in timed if m.time_us), default=math.inf)


def _best(tried: Trials) -> Tiling | None:
    return next(iter(_fastest(tried)), None)


def _fastest(trials: Trials) -> list[Tiling]:
    timed = [tiling for tiling, measurement in trials.items() if measurement.time_us]
    return sorted(timed, key=lambda tiling: trials[tiling].score)
