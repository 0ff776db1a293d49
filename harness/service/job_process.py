"""The process of one job: it runs its commands, writes their result, and ends with the service.

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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from harness.machine.whole_files import write_atomically

COMMANDS, LOG, RESULT, ENDED = "commands.json", "log.txt", "result.json", "ended.json"
"""Files of a job's folder: what is run, what it said, its answer, and that it ended by itself."""
ENDING_S = 9.0
"""Between being told to end and being killed."""


def carry_out(folder: Path) -> None:
    """Run a job's commands one after the other, until one fails or standard input ends."""
    commands = json.loads((folder / COMMANDS).read_text(encoding="utf-8"))
    answers: list[dict[str, object]] = []
    status = 0
    for command in commands:
        ended, answer = _run(folder, command)
        if ended is None:
            return
        status = ended
        answers.append(answer)
        if status:
            break
    if result := joined(answers):
        write_atomically(folder / RESULT, json.dumps(result))
    said = {"exit_status": status, "ended": datetime.now(UTC).isoformat(timespec="seconds")}
    write_atomically(folder / ENDED, json.dumps(said))


def joined(answers: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Return commands' answers as one: all proposals in a row, and else the keys of the last that has them.

    Examples
    --------
    >>> joined([{"step": 1, "proposals": ["a"]}, {"step": 1, "proposals": ["b"]}])
    {'step': 1, 'proposals': ['a', 'b']}
    """
    whole: dict[str, object] = {}
    for answer in answers:
        before, more = whole.get("proposals"), answer.get("proposals")
        whole |= answer
        if isinstance(before, list):
            whole["proposals"] = [*before, *more] if isinstance(more, list) else before
    return whole


def _run(folder: Path, command: Sequence[str]) -> tuple[int | None, dict[str, object]]:
    """Run one command; return its exit status, None where it had to end, and its last line."""
    answers = folder / "answers.txt"
    with (folder / LOG).open("ab") as log, answers.open("wb") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True
        )
        ended = _wait(child)
    lines = answers.read_text(encoding="utf-8", errors="replace").splitlines()
    answers.unlink()
    answer: object = None
    with suppress(IndexError, json.JSONDecodeError):
        answer = json.loads(lines[-1])
    return child.returncode if ended else None, answer if isinstance(answer, dict) else {}


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
