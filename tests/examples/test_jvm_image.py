"""What `kafka-server` of the image of Java makes of its environment; a program named java notes its arguments."""

import os
import subprocess
import sys
from pathlib import Path

from localcluster.images.images import CATALOGUE, REPOSITORY

PROGRAM = REPOSITORY / CATALOGUE["jvm"] / "kafka_server.py"
JAVA = """#!/bin/sh
echo "$@" >> "$NOTES"
case "$*" in *kafka.Kafka*) cat "$4" >> "$NOTES" ;; esac
exit "${JAVA_EXIT:-0}"
"""


def run(folder: Path, **environ: str) -> tuple[int, list[str]]:
    java, notes = folder / "java", folder / "notes"
    java.write_text(JAVA)
    java.chmod(0o755)
    own = {"PATH": f"{folder}:{os.environ['PATH']}", "NOTES": str(notes), "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, PROGRAM], env=own | environ, capture_output=True, text=True, check=False)
    return done.returncode, notes.read_text().splitlines()


def test_variables_become_properties_by_the_rule_of_kafkas_own_images(tmp_path: Path) -> None:
    code, (form, start, *properties) = run(
        tmp_path, CLUSTER_ID="0_abc", KAFKA_NODE_ID="1", KAFKA_A__B="c=d", KAFKA_A___B="e", OTHER="f"
    )
    assert code == 0
    assert "kafka.tools.StorageTool format --ignore-formatted --cluster-id=0_abc" in form
    assert "kafka.Kafka" in start
    assert properties == ["a_b=c=d", "a-b=e", "node.id=1"]


def test_a_server_whose_storage_cannot_be_formatted_does_not_start(tmp_path: Path) -> None:
    code, notes = run(tmp_path, CLUSTER_ID="0_abc", JAVA_EXIT="3")
    assert code == 1
    assert len(notes) == 1
