"""Single files of C++ for updates that are compiled anyway, built by the compiler that torch.compile calls."""

from __future__ import annotations

import ctypes
import getpass
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from maze_kernel.errors import MazeWarning

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
_BUILDING = "building-"
"""What folders are called in which a compiler is at work."""
_GIVEN_UP_SECONDS = 3600.0
"""Nobody builds for so long: who did was killed."""
_NO_COMPILER = f"there is no C++ compiler ({', '.join(_COMPILERS)}, or what CXX names)"


def build_library(source: Path, *, calls_torch: bool = False, by_name: bool = False) -> ctypes.CDLL | None:
    """The library that `source` is; None, with a warning, where nothing can be compiled or the compiler refuses it.

    It takes some seconds, and is kept where torch keeps what it compiled, for processes that come later. One that is
    not as it was built, after a power cut say, or does not load, is built anew.

    Args:
        source: one file, whose functions have C linkage; it may include the headers beside this module.
        calls_torch: it calls functions of torch.
        by_name: what torch compiles finds its functions by their names. It can call no others: not even those of C.
    """
    try:
        return _loaded(source, _command(source, calls_torch, by_name), by_name)
    except (OSError, KeyError, subprocess.SubprocessError) as error:
        _warn(_reason(error))
        return None


def _command(source: Path, calls_torch: bool, by_name: bool) -> list[str]:
    compiler = os.environ.get("CXX") or next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise FileNotFoundError(_NO_COMPILER)
    machine = _MACHINE.get(torch.backends.cpu.get_cpu_capability(), ())
    linked = [f"-L{Path(torch.__file__).parent / 'lib'}", "-ltorch_cpu"] if calls_torch else []
    # What it is linked to would be found by name, too, and stand in the place of what other libraries mean by it
    linked += ["-nostdlib"] if by_name else []
    return [*compiler.split(), *_FLAGS, *machine, f"-I{Path(__file__).parent}", str(source), *linked]


def _loaded(source: Path, command: Sequence[str], by_name: bool) -> ctypes.CDLL:
    """The library, which is built unless the same command has built it before from the same text."""
    what = f"{command} {torch.__version__}".encode() + source.read_bytes()
    what += b"".join(header.read_bytes() for header in _HEADERS)
    name, folder = f"{source.stem}-{_digest(what)}", _folder()
    mode = ctypes.RTLD_GLOBAL if by_name else ctypes.RTLD_LOCAL
    for library in sorted(folder.glob(f"{name}-*.so")):
        with suppress(OSError):
            if library.name == _file_name(name, library.read_bytes()):  # a part of one would end the process
                return ctypes.CDLL(str(library), mode=mode)
    return ctypes.CDLL(str(_built(name, folder, command)), mode=mode)


def _built(name: str, folder: Path, command: Sequence[str]) -> Path:
    _remove_given_up(folder)
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=folder, ignore_cleanup_errors=True) as own:
        made = Path(own) / "made.so"
        subprocess.run([*command, "-o", str(made)], check=True, capture_output=True, timeout=_TIMEOUT_SECONDS)
        library = folder / _file_name(name, made.read_bytes())
        _flush(made)
        made.replace(library)  # whole or not at all, for processes that look for it now
    with suppress(OSError):  # not every file system can flush a folder
        _flush(folder)
    return library


def _file_name(name: str, content: bytes) -> str:
    return f"{name}-{_digest(content)}.so"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_given_up(folder: Path) -> None:
    for left in folder.glob(f"{_BUILDING}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _GIVEN_UP_SECONDS:
                shutil.rmtree(left)


@cache
def _warn(reason: str) -> None:
    """Once a process: what keeps one library from being built mostly keeps the others, too."""
    told = f"Maze's C++ for compiled updates cannot be had: {reason}"
    instead = "torch and NumPy compute in its place, more slowly and with other last digits"
    warnings.warn(f"{told}; {instead}", MazeWarning, stacklevel=3)


def _reason(error: Exception) -> str:
    """In one line."""
    if isinstance(error, KeyError):
        return "the cache of torch has no place for a user without a name; TORCHINDUCTOR_CACHE_DIR gives it one"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"the compiler took more than {_TIMEOUT_SECONDS} s"
    if isinstance(error, subprocess.CalledProcessError):
        said = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        return f"the compiler says {said[0]}" if said else f"the compiler ended with {error.returncode}"
    return str(error)


def _folder() -> Path:
    # What `torch._inductor` says, too; asking it would load the compiler.
    own = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or Path(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
    folder = Path(own) / "maze"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
