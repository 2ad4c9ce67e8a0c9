"""Files out of Go modules: only those of the pinned checksum are given out."""

import json
from pathlib import Path

import pytest

from localcluster import BinaryError
from testkit import go_modules

MODULE = "example.org/tool@v1.2.3", "h1:pinned="


@pytest.mark.parametrize(
    ("project", "path"),
    [
        ("kueue", "sigs.k8s.io/kueue"),
        ("jobset", "sigs.k8s.io/jobset"),
        ("lws", "sigs.k8s.io/lws"),
        ("trainer", "github.com/kubeflow/trainer/v2"),
    ],
)
def test_the_module_of_a_program_is_pinned_where_the_program_is(project: str, path: str) -> None:
    module, checksum = go_modules.of_program(project)
    assert module.startswith(f"{path}@v")
    assert checksum.startswith("h1:")


def test_the_folder_is_the_one_that_go_names_if_its_files_are_the_pinned_ones(tmp_path: Path) -> None:
    def folder_of(code: int = 0, **answer: str) -> str:
        """What a `go` leads to that answers so when the module is to be downloaded."""
        (tmp_path / "go").write_text(
            "#!/bin/sh\n"
            '[ "$1" = version ] && { echo go version go1.26.0 linux/amd64; exit; }\n'
            f'[ "$*" = "mod download -json example.org/tool@v1.2.3" ] && echo \'{json.dumps(answer)}\'\nexit {code}\n'
        )
        (tmp_path / "go").chmod(0o755)
        return str(go_modules.folder_of(*MODULE, {"PATH": str(tmp_path)}))

    assert folder_of(Dir="/modules/tool", Sum="h1:pinned=") == "/modules/tool"
    with pytest.raises(BinaryError, match="has the checksum h1:other=, h1:pinned= is pinned"):
        folder_of(Dir="/modules/tool", Sum="h1:other=")
    with pytest.raises(BinaryError, match=r"example.org/tool@v1.2.3: .*unknown revision"):
        folder_of(code=1, Error="unknown revision v1.2.3")
