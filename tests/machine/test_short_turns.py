"""Turns that a process asks for: the kernel's word for them, and that nothing else changes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from harness.machine.short_turns import TURN_MS

# In a process of its own: this one's turns stay as they are.
SCRIPT = """
import json, os
from concurrent.futures import ThreadPoolExecutor
from harness.machine.short_turns import ask_for_short_turns, turn_of_this_thread_ms

os.nice(3)
before = (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
given = ask_for_short_turns()
after = (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
with ThreadPoolExecutor(1) as pool:
    of_a_thread = pool.submit(turn_of_this_thread_ms).result()
print(json.dumps([before, after, given, turn_of_this_thread_ms(), of_a_thread]))
"""


def test_turns_are_as_short_as_asked_where_the_kernel_gives_them_and_all_else_stays() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    before, after, given, own_ms, of_a_thread_ms = json.loads(done.stdout)
    assert after == before
    if not given:
        pytest.skip("this kernel gives no turns of a length of one's own (Linux before 6.12)")
    assert own_ms == of_a_thread_ms == TURN_MS
