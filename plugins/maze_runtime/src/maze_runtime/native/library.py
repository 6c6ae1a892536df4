"""Single files of C++ for updates that are compiled anyway, built by the compiler that torch.compile calls."""

from __future__ import annotations

import ctypes
import getpass
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

_COMPILERS = ("g++", "c++", "clang++")
# Neither reassociation nor an assumption that numbers are finite: NaN has to arrive.
_FLAGS = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-shared", "-fPIC")
_MACHINE = {
    "AVX512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mprefer-vector-width=512", "-mfma"),
    "AVX2": ("-mavx2", "-mfma"),
}
"""What torch calls the processor's abilities, to the compiler's options."""
_HEADERS = sorted(Path(__file__).parent.glob("*.h"))
_TIMEOUT_SECONDS = 60


def build_library(source: Path, *, calls_torch: bool = False, by_name: bool = False) -> ctypes.CDLL | None:
    """The library that `source` is; None where nothing can be compiled, or the compiler refuses it.

    It takes some seconds, and is kept where torch keeps what it compiled, for processes that come later.

    Args:
        source: one file, whose functions have C linkage; it may include the headers beside this module.
        calls_torch: it calls functions of torch.
        by_name: what torch compiles finds its functions by their names. It can call no others: not even those of C.
    """
    compiler = os.environ.get("CXX") or next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return None
    machine = _MACHINE.get(torch.backends.cpu.get_cpu_capability(), ())
    linked = [f"-L{Path(torch.__file__).parent / 'lib'}", "-ltorch_cpu"] if calls_torch else []
    # What it is linked to would be found by name, too, and stand in the place of what other libraries mean by it
    linked += ["-nostdlib"] if by_name else []
    command = [*compiler.split(), *_FLAGS, *machine, f"-I{Path(__file__).parent}", str(source), *linked]
    mode = ctypes.RTLD_GLOBAL if by_name else ctypes.RTLD_LOCAL
    try:
        return ctypes.CDLL(str(_built(source, command)), mode=mode)
    except (OSError, KeyError, subprocess.SubprocessError):  # KeyError: a user without a name
        return None


def _built(source: Path, command: Sequence[str]) -> Path:
    """The place of the library, which is built unless the same command has built it before from the same text."""
    what = f"{command} {torch.__version__}".encode() + source.read_bytes()
    what += b"".join(header.read_bytes() for header in _HEADERS)
    library = _folder() / f"{source.stem}-{hashlib.sha256(what).hexdigest()[:16]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=library.parent, ignore_cleanup_errors=True) as folder:
            made = Path(folder) / library.name
            subprocess.run([*command, "-o", str(made)], check=True, capture_output=True, timeout=_TIMEOUT_SECONDS)
            made.replace(library)  # whole or not at all, for processes that look for it now
    return library


def _folder() -> Path:
    # What `torch._inductor` says, too; asking it would load the compiler.
    own = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or Path(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
    folder = Path(own) / "maze"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
