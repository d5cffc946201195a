"""What tests of this folder need."""

import subprocess

import pytest

from workbench.kernels.codegen.c_printer import prelude
from workbench.kernels.codegen.compiler import Build, has_compiler
from workbench.kernels.codegen.compiler import compiler as compiler_of
from workbench.kernels.codegen.fusion import Beside

compiler = pytest.mark.skipif(not has_compiler(), reason="no C compiler on the path")


def free(cluster):
    """Kernels that take no time."""
    return Beside(1e9, 0.0)


def expensive(cluster):
    """Kernels that never pay."""
    return Beside(1.0, 1e9)


def skip_if_not_for_here(error):
    """Skip a test if this processor, or the compiler, does not know the level that a kernel is made for."""
    if any(words in str(error) for words in ("another processor", "bad value", "unknown target CPU")):
        pytest.skip(str(error))


HARNESS = """
int main(void) {
  const int64_t sizes[] = {SIZES};
  const int64_t number = 1;
  const void *inputs[INPUTS + 2];
  for (int i = 0; i < INPUTS; i++) {
    float *made = malloc(sizeof(float) * sizes[i]);
    for (int64_t k = 0; k < sizes[i]; k++) made[k] = (float)(k % 13 - 6);
    inputs[i] = made;
  }
  void *weights = PREPARED;
  char *scratch = aligned_alloc(64, (SCRATCH + 127) / 64 * 64);
  float *y = malloc(sizeof(float) * RESULTS);
  memset(scratch, 0, 64);
  inputs[INPUTS] = weights, inputs[INPUTS + 1] = &number;
  for (int64_t piece = 0; piece < PIECES; piece++) layer_run(inputs, y, piece, 1, (float *)(scratch + 64));
  for (int i = 0; i < INPUTS; i++) free((void *)inputs[i]);
  free(weights), free(scratch), free(y);
  return 0;
}
"""


def run_under_sanitisers(made, cluster, folder):
    """Run a kernel on memory of exactly its own size."""
    numbers = {
        "SIZES": ", ".join(str(t.elements) for t in cluster.read),
        "INPUTS": len(cluster.inputs),
        "SCRATCH": made.scratch,
        "PIECES": made.pieces * (cluster.type.shape[0] if made.prepares else 1),
        "PREPARED": "layer_prepare(inputs)" if made.prepares else "NULL",
        "RESULTS": cluster.type.elements,
    }
    head = "".join(f"#define {name} {value}\n" for name, value in numbers.items())
    (folder / "layer.c").write_text(f"{prelude(made.text)}\n{made.text}\n{head}{HARNESS}")
    flags = ["-O1", "-march=native", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = [str(compiler_of(Build())), *flags, str(folder / "layer.c"), "-o", str(folder / "layer"), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run([folder / "layer"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
