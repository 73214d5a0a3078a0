"""Arrays registered with the CUDA runtime: its calls are checked against a library that counts them, and made where there is a device."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hanare
from hanare import errors

#: What the calls of the CUDA runtime say, and lists of what is registered.
RUNTIME = r"""
#include <stddef.h>
static struct { void *at; size_t len; } ranges[16];
int registered, unregistered, refused, devices = 1, flags_seen, last;
int cudaGetLastError(void) { int kept = last; last = 0; return kept; }
int cudaGetDeviceCount(int *count) { *count = devices; return devices < 0 ? last = 100 : 0; }
const char *cudaGetErrorString(int code) { return code == 712 ? "part is registered already" : code == 100 ? "no device is detected" : 0; }
int cudaHostRegister(void *at, size_t len, unsigned flags)
{
    flags_seen = (int)flags;
    for (int i = 0; i < 16; i++)
        if (ranges[i].len && (char *)at < (char *)ranges[i].at + ranges[i].len && (char *)ranges[i].at < (char *)at + len)
            return refused++, last = 712;
    for (int i = 0; i < 16; i++)
        if (!ranges[i].len)
            return ranges[i].at = at, ranges[i].len = len, registered++, 0;
    return 2;
}
int cudaHostUnregister(void *at)
{
    for (int i = 0; i < 16; i++)
        if (ranges[i].len && ranges[i].at == at)
            return ranges[i].len = 0, unregistered++, 0;
    return 713;
}
size_t length_at(void *at)
{
    for (int i = 0; i < 16; i++)
        if (ranges[i].len && ranges[i].at == at)
            return ranges[i].len;
    return 0;
}
"""


class Counting:
    """The library that counts."""

    def __init__(self, file: Path) -> None:
        self.file, self.library = str(file), ctypes.CDLL(str(file))
        self.library.length_at.argtypes, self.library.length_at.restype = [ctypes.c_void_p], ctypes.c_size_t

    def __getattr__(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.library, name).value

    def set(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self.library, name).value = value

    def length_at(self, array: Any) -> int:
        length: int = self.library.length_at(array.ctypes.data)
        return length


@pytest.fixture
def runtime(tmp_path: Path) -> Counting:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler for C, which makes the library that counts")
    (tmp_path / "runtime.c").write_text(RUNTIME)
    # Another file each time: a loaded library stays loaded.
    file = tmp_path / "libcudart.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", file, tmp_path / "runtime.c"], check=True)
    return Counting(file)


def test_arrays_and_regions_are_registered_whole_until_the_end(pool: hanare.Pool, name: str, runtime: Counting) -> None:
    array = pool.from_numpy(np.arange(3000.0).reshape(50, 60), name=name)
    assert isinstance(array, hanare.LocalArray)
    with hanare.pin(array, library=runtime.file) as pinned:
        assert runtime.length_at(array) == 24000 and (runtime.registered, runtime.unregistered, runtime.flags_seen) == (1, 0, 1)
        assert pinned.array is array and not pinned.closed
        other = np.from_dlpack(pinned)
        assert np.shares_memory(other, array) and (other == array).all() and pinned.__dlpack_device__() == (1, 0)
        array[0, 0] = 7
        assert other[0, 0] == 7
        with pytest.raises(errors.System, match="registered already"):
            hanare.pin(array[10:], library=runtime.file)
        assert (runtime.refused, runtime.registered) == (1, 1)
    assert pinned.closed and runtime.length_at(array) == 0 and runtime.unregistered == 1
    pinned.close()
    with pytest.raises(errors.BadUse):
        pinned.__dlpack__()
    # A region, whose memory stays as long as it is registered.
    region = pool.create(f"{name}.bytes", 100_000)
    pinned = hanare.pin(region, library=runtime.file)
    region.put(5, b"here")
    assert pinned.array.nbytes == 100_000 == runtime.length_at(pinned.array) and pinned.array[5:9].tobytes() == b"here"
    pool.remove(f"{name}.bytes")
    del region
    gc.collect()
    assert pinned.array[5:9].tobytes() == b"here" and runtime.unregistered == 1
    child = os.fork()
    if child == 0:
        pinned.close()
        os._exit(0 if runtime.unregistered == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0, "a child made by fork has nothing registered"
    del pinned
    gc.collect()
    assert (runtime.registered, runtime.unregistered) == (2, 2), "the last reference ends it"
    pool.remove(name)


def test_what_cannot_be_registered_is_refused_in_a_sentence(pool: hanare.Pool, name: str, runtime: Counting, tmp_path: Path) -> None:
    array = pool.from_numpy(np.arange(100), name=name)
    far = pool.create(f"{name}.far", 4096, place="node=1")
    with pytest.raises(errors.BadUse, match="another host"):
        hanare.pin(far, library=runtime.file)
    for odd, error in ((array[::2], ValueError), (array[:0], ValueError), (b"bytes", TypeError), ([1], TypeError)):
        with pytest.raises(error):
            hanare.pin(odd, library=runtime.file)  # type: ignore[arg-type]
    for devices, reason in ((0, "counts none"), (-1, "no device is detected")):
        runtime.set("devices", devices)
        with pytest.raises(errors.System, match=reason):
            hanare.pin(array, library=runtime.file)
    with pytest.raises(errors.System, match="no CUDA runtime is here"):
        hanare.pin(array, library=str(tmp_path / "none.so"))
    with pytest.raises(errors.System, match="is no CUDA runtime"):
        hanare.pin(array, library="libc.so.6")
    assert runtime.registered == 0
    pool.remove(name)
    pool.remove(f"{name}.far")


def test_the_runtime_of_this_host_registers_an_array(pool: hanare.Pool, name: str) -> None:
    array = pool.from_numpy(np.arange(1 << 18), name=name)
    try:
        pinned = hanare.pin(array)
    except errors.System as without:
        pytest.skip(str(without))
    else:
        with pinned, pytest.raises(errors.System):
            hanare.pin(array)
        hanare.pin(array).close()
    finally:
        pool.remove(name)
