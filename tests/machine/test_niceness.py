import json
import subprocess
import sys
from pathlib import Path

import psutil

from harness.machine.niceness import NICENESS

# In a process of its own: an ordinary user's cannot take its niceness back.
SCRIPT = """
import json, sys, threading
import psutil
from pathlib import Path
from harness.machine.niceness import giving_way
from harness.machine.server_process import ServerProcess

own = psutil.Process()
end = threading.Event()
threading.Thread(target=end.wait, daemon=True).start()

def all_threads():
    return sorted(psutil.Process(t.id).nice() for t in own.threads())

def of_a_server():
    server = ServerProcess("one", [sys.executable, "-c", "import time; time.sleep(1000)"], Path(sys.argv[1]))
    server.wait_ready(lambda: psutil.Process(server.pid).name() != "nice", 60)
    niceness = psutil.Process(server.pid).nice()
    server.terminate()
    server.wait_ended(60)
    return niceness

found = [all_threads(), of_a_server()]
with giving_way():
    found += [all_threads(), of_a_server()]
end.set()
print(json.dumps(found))
"""


def test_the_campaign_gives_way_like_the_servers_whenever_they_were_started(tmp_path: Path) -> None:
    own = psutil.Process().nice()
    servers = min(own + NICENESS, 19)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "log")], capture_output=True, text=True, check=True
    )
    before, server_before, inside, server_inside = json.loads(done.stdout)
    assert (set(before), set(inside)) == ({own}, {servers})
    assert len(before) == len(inside) >= 2
    assert (server_before, server_inside) == (servers, servers)
