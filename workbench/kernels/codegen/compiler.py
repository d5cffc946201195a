"""The system's C compiler: text becomes a loaded library, once per content.

A library is kept in the folder ``kernels`` of the user's cache folder, or of the folder that
``WORKBENCH_CACHE`` names. Its name is a digest of everything that it depends on: the text, the flags, the
compiler and the processor.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from workbench.support.files import cache_folder, check_library
from workbench.support.machine import processor

#: Compilers that are tried if none is named.
COMPILERS: Final = ("cc", "gcc", "clang")

#: Flags that change no value: no function sets errno, and no operation stops the program.
_KEEPING: Final = ("-fno-math-errno", "-fno-trapping-math")

_loaded: dict[str, ctypes.CDLL] = {}


class CompilerMissing(RuntimeError):
    """Raised when a C compiler is missing; the message lists the places that were searched."""


class CompilationFailed(RuntimeError):
    """Raised when the compiler refuses a text; the message has its first line, ``text`` the C text."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


@dataclass(frozen=True, slots=True)
class Build:
    """The options of the compiler.

    ``cc`` is the compiler's name or path; empty means the first one of :data:`COMPILERS` on the path.
    ``march`` is the processor that code is made for; empty means any. With ``omp`` loops run on several
    threads. ``opt`` is the level of optimisation. With ``fast_math`` the compiler may reorder sums and assume
    that there is no infinity and no NaN; results then depend on the compiler, and a certificate states this.
    With ``contract`` the compiler may round a product and a sum once, in one instruction; without it, only
    ``fma`` in a composite does.
    """

    cc: str = ""
    march: str = "native"
    omp: bool = True
    opt: int = 3
    fast_math: bool = False
    contract: bool = True

    def __post_init__(self) -> None:
        if self.opt not in range(4):
            raise ValueError(f"OPT, the level of optimisation, must be 0 to 3, got {self.opt}")
        if any(c.isspace() for c in self.march) or self.march.startswith("-"):
            raise ValueError(f"MARCH must be the name of a processor, got {self.march!r} (try native)")

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the flags of the compiler."""
        return (
            f"-O{self.opt}",
            *([f"-march={self.march}"] if self.march else []),
            "-fopenmp" if self.omp else "-fopenmp-simd",
            *(["-ffast-math"] if self.fast_math else _KEEPING),
            f"-ffp-contract={'fast' if self.contract else 'off'}",
        )

    @property
    def arithmetic(self) -> str:
        """Return the meaning of the flags for values, in a few words."""
        words = "-ffast-math" if self.fast_math else "strict arithmetic"
        return words if self.contract else f"{words} without contraction"


def build_from(named: Mapping[str, str] | None = None) -> Build:
    """Return the options from ``CC``, ``MARCH``, ``OMP``, ``OPT``, ``FAST_MATH`` and ``CONTRACT``.

    They are in ``named``, by default in the environment. Raise ValueError if an option has no such value.
    """
    given = os.environ if named is None else named
    opt = given.get("OPT", "3").removeprefix("-O")
    if not opt.isdecimal():
        raise ValueError(f"OPT, the level of optimisation, must be 0 to 3, got {opt!r}")
    return Build(
        cc=given.get("CC", ""),
        march=given.get("MARCH", "native"),
        omp=_switch(given, "OMP", "1"),
        opt=int(opt),
        fast_math=_switch(given, "FAST_MATH", "0"),
        contract=_switch(given, "CONTRACT", "1"),
    )


def _switch(given: Mapping[str, str], name: str, otherwise: str) -> bool:
    value = given.get(name, otherwise)
    if value not in ("0", "1"):
        raise ValueError(f"{name} must be 0 or 1, got {value!r}")
    return value == "1"


def compiler(build: Build) -> Path:
    """Return the path of the compiler; raise :class:`CompilerMissing` if it is not there."""
    for name in (build.cc,) if build.cc else COMPILERS:
        if found := shutil.which(name):
            return Path(found)
    wanted = f"CC is {build.cc!r}, which is" if build.cc else f"{', '.join(COMPILERS)} are"
    raise CompilerMissing(f"a C compiler must be on the path, but {wanted} not (try apt-get install gcc)")


def has_compiler(build: Build | None = None) -> bool:
    """Return whether there is a compiler for these options, by default those of the environment."""
    try:
        compiler(build_from() if build is None else build)
    except CompilerMissing:
        return False
    return True


def library(text: str, build: Build) -> ctypes.CDLL:
    """Return the library of a C text: loaded before, found in the cache, or compiled now; see :func:`compiled`."""
    name = place_of(text, build).name
    if name not in _loaded:
        # Idle threads sleep: spinning ones would take the cores from ONNX Runtime beside them.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        try:
            _loaded[name] = ctypes.CDLL(str(compiled(text, build)))
        except PermissionError:  # nothing can be kept: the library lives as long as the process
            with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
                place = Path(folder) / "kernel.so"
                _compile(text, build, place)
                _loaded[name] = ctypes.CDLL(str(place))
    return _loaded[name]


def place_of(text: str, build: Build, parts: Sequence[Path] | None = ()) -> Path:
    """Return the file in the cache that a text has or will have; see :func:`compiled`."""
    names = "".join(f"/* with {part.stem} */" for part in parts or ())
    digest = hashlib.blake2b(digest_size=16)
    for part in (text + names, " ".join(build.flags), *_toolchain(compiler(build))):
        digest.update(f"{len(part)}:".encode() + part.encode())
    return cache_folder() / "kernels" / f"{digest.hexdigest()}.{'o' if parts is None else 'so'}"


def compiled(text: str, build: Build, parts: Sequence[Path] | None = ()) -> Path:
    """Return the file of a C text: found in the cache, or compiled now; a library is not loaded.

    It is a library, of which object files may become ``parts``; without parts, if they are None, an object file.
    Raise CompilerMissing without a compiler, CompilationFailed if it refuses the text, and PermissionError if the cache
    cannot be written.
    """
    place = place_of(text, build, parts)
    try:
        if parts is not None:
            check_library(place)
        elif not place.stat().st_size:
            raise FileNotFoundError(place)
    except OSError:  # it is not there, or broken
        place.parent.mkdir(parents=True, exist_ok=True)
        _compile(text, build, place, parts or ())
    return place


def _compile(text: str, build: Build, place: Path, parts: Sequence[Path] = ()) -> None:
    """Compile a text to a file that appears whole or not at all; the text is kept next to it."""
    chosen = compiler(build)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=place.parent) as folder:
        source, part, made = (Path(folder) / f"kernel.{ending}" for ending in ("c", "o", "so"))
        source.write_text(text)
        # Linking with -ffast-math would make the whole process round the smallest numbers to zero.
        linking = [flag for flag in build.flags if flag != "-ffast-math"]
        steps = [[*build.flags, "-fPIC", "-c", str(source), "-o", str(part)]]
        if place.suffix == ".so":
            steps += [[*linking, "-shared", str(part), *map(str, parts), "-o", str(made), "-lm"]]
        else:
            made = part
        for step in steps:
            done = subprocess.run([str(chosen), *step], capture_output=True, text=True, check=False)
            if done.returncode:
                lines = done.stderr.strip().splitlines() or ["no message"]
                first = next((line for line in lines if "error" in line), lines[0])
                raise CompilationFailed(
                    f"{chosen} must compile the kernel with {' '.join(build.flags)}, got: {first}", text
                )
        source.replace(place.with_suffix(".c"))
        made.replace(place)


@lru_cache(maxsize=8)
def _toolchain(chosen: Path) -> tuple[str, ...]:
    """Return the identity of the compiler and the processor; a new version of the compiler is a new file."""
    real = chosen.resolve()
    about = real.stat()
    return str(real), f"{about.st_size} {about.st_mtime_ns}", processor()
