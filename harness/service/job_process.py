"""The process of one job: it runs a command, writes the command's result, and ends with the service.

Its standard input is a pipe from the service. When that closes, by whatever death of the service, the command
gets the signal to end, and is killed if it does not. No result is written then: the job was interrupted.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from harness.machine.whole_files import write_atomically

COMMAND, LOG, RESULT, ENDED = "command.json", "log.txt", "result.json", "ended.json"
"""Files of a job's folder: what is run, what it said, its answer, and that it ended by itself."""
ENDING_S = 9.0
"""Between being told to end and being killed."""


def carry_out(folder: Path) -> None:
    """Run the command of a job's folder until it ends or standard input does."""
    command = json.loads((folder / COMMAND).read_text(encoding="utf-8"))
    answers = folder / "answers.txt"
    with (folder / LOG).open("ab") as log, answers.open("wb") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True
        )
        ended = _wait(child)
    lines = answers.read_text(encoding="utf-8", errors="replace").splitlines()
    answers.unlink()
    if not ended:
        return
    with suppress(IndexError, json.JSONDecodeError):
        write_atomically(folder / RESULT, json.dumps(json.loads(lines[-1])))
    said = {"exit_status": child.returncode, "ended": datetime.now(UTC).isoformat(timespec="seconds")}
    write_atomically(folder / ENDED, json.dumps(said))


def _wait(child: subprocess.Popen[bytes]) -> bool:
    """Return True when a command ended by itself; one that is still there when input closes is ended."""
    process = os.pidfd_open(child.pid)
    try:
        ready, _, _ = select.select([process, sys.stdin.fileno()], [], [])
    finally:
        os.close(process)
    if child.poll() is not None or (process in ready and child.wait() is not None):
        return True
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(ENDING_S)
            break
    return False


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The service says when, by closing the pipe. To ignore them would be handed on to the command.
        signal.signal(number, lambda *_: None)
    carry_out(Path(sys.argv[1]))
