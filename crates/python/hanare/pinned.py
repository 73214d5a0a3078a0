"""Memory of the pool that a GPU reaches by itself: the CUDA runtime registers an array of this host, so that copies to and from it need no detour.

Only the runtime's C library is used, by `ctypes`; it is looked for where it is needed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BadUse, System
from .pool import Region

__all__ = ["Pinned", "pin"]

#: Names of the runtime's library, the newest first. One that the program has loaded, as torch does, is found by the same name.
_NAMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so")
#: The memory is registered for all contexts of the program.
_PORTABLE = 1


def _of_packages() -> list[str]:
    """Files of NVIDIA's own Python packages."""
    try:
        found = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        found = None
    folders = list(found.submodule_search_locations or []) if found is not None else []
    return [str(file) for folder in folders for file in sorted(Path(folder).glob("*/lib/libcudart.so.*"), reverse=True)]


def _runtime(library: str | None) -> ctypes.CDLL:
    """The CUDA runtime, with a device. **Errors**: `System`, in one sentence."""
    for name in (library,) if library is not None else (*_NAMES, *_of_packages()):
        try:
            runtime = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        raise System("no CUDA runtime is here: libcudart.so cannot be loaded")
    try:
        runtime.cudaHostRegister.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
        runtime.cudaHostUnregister.argtypes = [ctypes.c_void_p]
        runtime.cudaGetDeviceCount.argtypes = [ctypes.POINTER(ctypes.c_int)]
        runtime.cudaGetLastError.argtypes = []
        runtime.cudaGetErrorString.argtypes, runtime.cudaGetErrorString.restype = [ctypes.c_int], ctypes.c_char_p
    except AttributeError as odd:
        raise System(f"the library '{runtime._name}' is no CUDA runtime: {odd}") from None
    count = ctypes.c_int(0)
    code = runtime.cudaGetDeviceCount(ctypes.byref(count))
    if code != 0 or count.value < 1:
        raise System(f"no CUDA device is here: {_reason(runtime, code) if code else 'the runtime counts none'}")
    return runtime


def _reason(runtime: ctypes.CDLL, code: int) -> str:
    # The runtime keeps the error for the next look at it, which is another library's otherwise.
    runtime.cudaGetLastError()
    told: bytes | None = runtime.cudaGetErrorString(code)
    return f"{(told or b'an error without a name').decode(errors='replace')} ({code})"


def _let_go(runtime: ctypes.CDLL, address: int, process: int, memory: Any) -> None:
    """Unregister memory, which `memory` keeps until then. A child made by fork has nothing registered."""
    if process == os.getpid() and runtime.cudaHostUnregister(address) != 0:
        runtime.cudaGetLastError()
    del memory


class Pinned:
    """An array that is registered with the CUDA runtime, until `close`, the end of a ``with``, or the last reference.

    Attributes
    ----------
    array : numpy.ndarray
        The array, on the same memory.
    """

    def __init__(self, array: np.ndarray[Any, Any], runtime: ctypes.CDLL) -> None:
        address, self.array = array.ctypes.data, array
        code = runtime.cudaHostRegister(address, array.nbytes, _PORTABLE)
        if code != 0:
            raise System(f"{array.nbytes} bytes cannot be registered with the CUDA runtime: {_reason(runtime, code)}")
        # An array's memory stays mapped while something refers to the array.
        self._end = weakref.finalize(self, _let_go, runtime, address, os.getpid(), array)

    @property
    def closed(self) -> bool:
        """Whether it is registered no more."""
        return not self._end.alive

    def __dlpack__(self, **options: Any) -> Any:
        """Give the array to another library, on the same memory. Keep this object as long as the other copies to or from it.

        Raises
        ------
        BadUse
            It is registered no more.
        """
        if self.closed:
            raise BadUse("this array is registered with the CUDA runtime no more")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's name for the main memory of this host, where the array is."""
        kind, number = self.array.__dlpack_device__()
        return int(kind), int(number)

    def close(self) -> None:
        """End the registration; the array stays."""
        self._end()

    def __enter__(self) -> Pinned:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<hanare.Pinned {self.array.nbytes} bytes{', closed' if self.closed else ''}>"


def pin(of: np.ndarray[Any, Any] | Region, *, library: str | None = None) -> Pinned:
    """Register memory of this host with the CUDA runtime, so that a GPU copies to and from it without a detour.

    Parameters
    ----------
    of : numpy.ndarray or Region
        An array whose bytes lie one after another, as one of the pool on this host. Or a region of this host, whose bytes become an array.
    library : str, optional
        The file of the CUDA runtime; by default it is looked for.

    Returns
    -------
    Pinned
        The array, with `__dlpack__`, for ``torch.from_dlpack`` and others.

    Raises
    ------
    System
        There is no CUDA runtime or no device, or the runtime refuses, as where a part is registered already.
    ValueError
        The array has no bytes, or they do not lie one after another.
    BadUse
        The region is of another host, or mapped in another way.

    Notes
    -----
    **Cost**: the kernel holds all pages of the array in memory, some 0.1 s for each GiB. The GIL is released.
    """
    if isinstance(of, Region):
        view = of.pool._view(of) if of.is_local else None
        if view is None:
            raise BadUse(f"region '{of.name}' is not in this program's memory: it is of another host, or mapped in another way")
        of = np.frombuffer(memoryview(view), np.uint8)
    if not isinstance(of, np.ndarray):
        raise TypeError(f"only arrays and regions of this host can be registered, not {type(of).__name__}")
    if not (of.flags.c_contiguous or of.flags.f_contiguous) or of.nbytes == 0:
        raise ValueError("an array that is registered has bytes, and they lie one after another")
    return Pinned(of, _runtime(library))
