"""The forward kernels compiled for GPUs that are not here: they compile, spill nothing, and read 128 bits at a time."""

import re
import subprocess
from pathlib import Path

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from normbench.kernels import layer_norm, rms_norm
from normbench.kernels.launch import forward_launch

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def compile_for(module, cols, arch):
    """Compile the bfloat16 forward with a weight and a residual for rows of `cols`, whose size and strides divide by 16."""
    launch = forward_launch(cols)
    kernel = module.forward_looped if launch.is_looped else module.forward_one_pass
    constants = {"CONVENTION": "torch", "BLOCK_M": launch.block_rows, "BLOCK_N": launch.block_cols}
    constants |= dict.fromkeys(("bias_ptr", "mean_ptr", "rstd_ptr"))
    types = {"eps": "fp32"} | dict.fromkeys(("M", "N", "x_stride", "residual_stride"), "i32")
    signature = {name: "constexpr" if name in constants else types.get(name, "*bf16") for name in kernel.arg_names}
    divisible = {
        (i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if signature[name] in ("*bf16", "i32") and name != "M"
    }
    source = ASTSource(kernel, signature, {name: value for name, value in constants.items() if name in signature}, divisible)
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": launch.num_warps})


# A100 and H100; the widest row on chip, where registers are fewest, and one that is looped over.
@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("cols", [16384, 32768])
@pytest.mark.parametrize("module", [layer_norm, rms_norm], ids=["layer_norm", "rms_norm"])
def test_it_compiles_without_spills_into_128_bit_accesses(module, cols, arch, tmp_path, monkeypatch):
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    compiled = compile_for(module, cols, arch)
    (tmp_path / "kernel.cubin").write_bytes(compiled.asm["cubin"])
    usage = subprocess.run([CUOBJDUMP, "-res-usage", tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"STACK:(\d+)", usage) == ["0"]
    accesses = re.findall(r"(?:ld|st)\.global\S*", compiled.asm["ptx"])
    assert accesses
    assert [access for access in accesses if ".v4.b32" not in access] == []
