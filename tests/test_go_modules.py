"""Files out of Go modules: only those of the pinned checksum are given out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from localcluster import BinaryError
from testkit import go_modules

if TYPE_CHECKING:
    from pathlib import Path

MODULE = go_modules.Module("example.org/tool", "1.2.3", "h1:pinned=")


def environment(folder: Path, answer: str, code: int = 0) -> dict[str, str]:
    """A `go` that answers so when a module is to be downloaded."""
    program = folder / "go"
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1" = version ] && { echo go version go1.26.0 linux/amd64; exit; }\n'
        f'[ "$*" = "mod download -json example.org/tool@v1.2.3" ] && echo \'{answer}\'\nexit {code}\n'
    )
    program.chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.parametrize("project", ["kueue", "jobset", "lws"])
def test_the_module_of_a_program_is_pinned_where_the_program_is(project: str) -> None:
    found = go_modules.of_program(project)
    assert found.path == f"sigs.k8s.io/{project}"
    assert found.checksum.startswith("h1:")


def test_the_folder_is_the_one_that_go_names(tmp_path: Path) -> None:
    answer = json.dumps({"Dir": "/modules/tool", "Sum": "h1:pinned="})
    assert str(go_modules.folder_of(MODULE, environment(tmp_path, answer))) == "/modules/tool"


def test_files_of_another_checksum_are_an_error_that_names_both(tmp_path: Path) -> None:
    answer = json.dumps({"Dir": "/modules/tool", "Sum": "h1:other="})
    with pytest.raises(BinaryError, match="has the checksum h1:other=, h1:pinned= is pinned"):
        go_modules.folder_of(MODULE, environment(tmp_path, answer))


def test_a_module_that_cannot_be_fetched_is_an_error_with_the_words_of_go(tmp_path: Path) -> None:
    answer = json.dumps({"Error": "unknown revision v1.2.3"})
    with pytest.raises(BinaryError, match=r"example.org/tool@v1.2.3: .*unknown revision"):
        go_modules.folder_of(MODULE, environment(tmp_path, answer, code=1))
