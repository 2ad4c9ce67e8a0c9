"""What the API server stores nests 10,000 deep at most, and the program reads it at once."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import json, threading, time
from frameworkcontroller.__main__ import read_deep_objects
from frameworkcontroller.api.meta import PARTIAL_DECODER
from frameworkkube.informer.watch_events import WireDecoder

metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
line = json.dumps({"type": "MODIFIED", "object": {"metadata": metadata | {"managedFields": 0}}}).encode()
line = line.replace(b'"managedFields": 0', b'"managedFields": ' + b'{"f:a":' * 9_900 + b"1" + b"}" * 9_900)
wire = WireDecoder(PARTIAL_DECODER)
assert wire.quick(line) is None, "Python's own limit"
read_deep_objects()
found = []
threads = [threading.Thread(target=lambda: found.append(wire.quick(line))) for _ in range(2)]
for thread in threads:
    thread.start()
    thread.join()
assert [one.resource_version for one in (*found, wire.quick(line))] == ["7"] * 3
"""


def test_managed_fields_as_deep_as_the_api_server_stores_them_are_no_slow_line() -> None:
    """Lines of 250 KB, 25 a second, held back the events of other namespaces by 13 s, and the Lease by 5 s."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
