"""Runs Liger-Kernel's LigerGELUMulFunction on a GPU as it comes and with our launch installed, and compares both.

    python tests/benchmarks/liger_both_ways.py --liger FOLDER --out FILE.json

FOLDER is Liger-Kernel's wheel, unpacked. Tunes a few shapes first. Ends with status 1 where our results or gradients
leave the error bound, or where install() or uninstall() changes what it should not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import torch

from geglu_kernels.reference import check
from geglu_kernels.specs import DEFAULT_KERNELS, KERNELS

SHAPES = ((37, 1000), (1024, 11008), (8, 1024, 2816))
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def tune(database: str) -> None:
    arguments = ["sweep", "--device", "cuda:0", "--trials", "8", "--db", database]
    arguments += [f"--shape={'x'.join(map(str, shape))}" for shape in SHAPES]
    arguments += [f"--dtype={dtype}" for dtype in DTYPES]
    subprocess.run([sys.executable, "-m", "geglu_tune", *arguments], check=True, stdout=subprocess.DEVNULL)


def apply(function: Any, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """c, da and db of the autograd function; the inputs are copied, as Liger's backward writes into what it saved."""
    a, b = (inputs[name].clone().requires_grad_() for name in ("a", "b"))
    c = function.apply(a, b)
    kept = c.detach().clone()
    c.backward(inputs["dc"])
    return {"c": kept, "da": a.grad, "db": b.grad}


def worst(inputs: dict[str, torch.Tensor], outputs: dict[str, torch.Tensor], dtype: str) -> float:
    """Largest error of any output, as a share of its bound."""
    arrays = {name: tensor.float().cpu().numpy() for name, tensor in {**inputs, **outputs}.items()}
    errors = []
    for kernel in DEFAULT_KERNELS:
        spec = KERNELS[kernel]
        given, got = ({name: arrays[name] for name in names} for names in (spec.inputs, spec.outputs))
        errors += check(kernel, given, got, dtype)
    return max(error.worst for error in errors)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--liger", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GEGLU_TUNE_DB"] = f"{folder}/tunings.db"
        tune(f"{folder}/tunings.db")
        rows, sound = compare(options.liger)
    options.out.write_text(json.dumps(rows, indent=1))
    return 0 if sound else 1


def compare(liger_folder: Path) -> tuple[list[dict[str, Any]], bool]:
    sys.path.insert(0, str(liger_folder))
    from liger_kernel.transformers.geglu import LigerGELUMulFunction  # imported before install()

    from geglu_tune import lookup
    from geglu_tune.integrations import liger

    torch.manual_seed(0)
    rows = []
    for shape, (dtype, torch_dtype) in product(SHAPES, DTYPES.items()):
        inputs = {name: 2 * torch.randn(shape, device="cuda").to(torch_dtype) for name in ("a", "b", "dc")}
        theirs = apply(LigerGELUMulFunction, inputs)
        liger.install()
        ours = apply(LigerGELUMulFunction, inputs)
        liger.uninstall()
        again = apply(LigerGELUMulFunction, inputs)
        row = {
            "shape": "x".join(map(str, shape)),
            "dtype": dtype,
            "origin": lookup("geglu_forward", shape, dtype).origin,
            "share of the bound": {"liger": worst(inputs, theirs, dtype), "ours": worst(inputs, ours, dtype)},
            "largest difference": {name: (ours[name] - theirs[name]).abs().max().item() for name in ours},
            "restored": all(torch.equal(again[name], theirs[name]) for name in theirs),
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    sound = all(r["origin"] == "exact" and r["share of the bound"]["ours"] <= 1 and r["restored"] for r in rows)
    return rows, sound


if __name__ == "__main__":
    sys.exit(main())
