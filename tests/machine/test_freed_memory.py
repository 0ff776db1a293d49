"""Arrays that are freed between others that stay: what a process of its own keeps of them."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ARRAYS_MIB = 400
PROGRAM = f"""
import sys
import numpy as np
import psutil
from harness.machine.freed_memory import return_freed_memory

if sys.argv[1] == "returned":
    assert return_freed_memory()
before = psutil.Process().memory_info().rss
np.ones(1 << 20)  # 8 MiB, freed: by default smaller blocks are in the heap from now on
arrays = [np.ones(1 << 17) for _ in range({ARRAYS_MIB})]  # 1 MiB each
arrays = arrays[::10]
print((psutil.Process().memory_info().rss - before) >> 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="options of glibc")
@pytest.mark.parametrize(("how", "least_mib", "most_mib"), [("kept", 350, 500), ("returned", 40, 60)])
def test_arrays_that_are_freed_are_given_back(how: str, least_mib: int, most_mib: int) -> None:
    """A tenth of 400 MiB stays in use; without the options the rest stays, too."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=120, check=True
    )
    assert least_mib <= int(ran.stdout) <= most_mib
