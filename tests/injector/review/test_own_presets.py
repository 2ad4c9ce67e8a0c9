"""The operator's own presets: what is read from the folder, and what is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from frameworkinjector import flags
from frameworkinjector.offline.render import rendered
from frameworkinjector.review import own_presets
from frameworkinjector.review.own_presets import OwnPresetsError, read
from frameworkinjector.review.reasons import RefusalError
from tests.injector.golden_pods import pod_of
from tests.support.rows import each

GOOD = """
port = 9000
heads = ["hub"]
optional = ["MY_INDEX"]
[variables]
MY_HUB = "{{ head.name | host }}:{{ head.port }}"
MY_INDEX = "{{ me.index }}"
[files]
"peers.txt" = "{{ tasks | length }}"
"""


def test_each_toml_file_is_a_preset_of_its_name(tmp_path: Path) -> None:
    assert read(tmp_path) == {}
    (tmp_path / "mine.toml").write_text(GOOD)
    (tmp_path / "README.md").write_text("not a preset")
    (tmp_path / "..2026").mkdir()
    (tmp_path / ".hidden.toml").write_text("not a preset")
    found = read(tmp_path)
    assert list(found) == ["mine"]
    assert (found["mine"].port, found["mine"].heads, list(found["mine"].files)) == (9000, ("hub",), ["peers.txt"])


VARIABLE = '[variables]\nA = ""'


def refusal(folder: Path) -> str:
    with pytest.raises(OwnPresetsError) as refused:
        read(folder)
    return str(refused.value)


@each(
    "text, says",
    [
        ("port = ", "Invalid value"),
        ("", "preset mine: variables: is needed, or files"),
        ("[variables]", "preset mine: variables: is needed, or files"),
        ("x = 1", "preset mine: x: there is no such field; there are variables, files"),
        ("variables = 1", "preset mine: variables: must be a table"),
        ("[variables]\nA = 1", "preset mine: variables.A: must be the text of a template"),
        ('[variables]\n"A B" = ""', "preset mine: variables: 'A B' must be the name of a variable"),
        ('[variables]\nFB_PRESET = ""', "preset mine: variables: 'FB_PRESET' must be the name of a variable, not"),
        ('[files]\n"../x" = ""', "preset mine: files: '../x' must be the name of a file"),
        (f"port = 0\n{VARIABLE}", "preset mine: port: must be a whole number from 1 to 65535"),
        (f"port = true\n{VARIABLE}", "preset mine: port: must be a whole number"),
        (f'heads = "x"\n{VARIABLE}', "preset mine: heads: must be a list of names of roles"),
        (f"gpu_slots = 1\n{VARIABLE}", "preset mine: gpu_slots: must be true or false"),
        (f"doc = 1\n{VARIABLE}", "preset mine: doc: must be a text"),
        (f'optional = ["B"]\n{VARIABLE}', "preset mine: optional: B is not one of the variables"),
    ],
)
def test_a_wrong_definition_is_refused_with_file_and_field(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    assert refusal(tmp_path).startswith(f"--preset-dir {tmp_path}: mine.toml: {says}")


@pytest.mark.parametrize("name", ["My", "a,b"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.toml").write_text(VARIABLE)
    assert f"{name}.toml: preset '{name}': the name must be lower-case" in refusal(tmp_path)


def test_definitions_that_no_variable_could_hold_are_refused(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"big{number}.toml").write_text(f'[variables]\nA = "{"x" * (own_presets.MAX_BYTES // 2)}"')
    assert "bytes, at most 98304 are possible" in refusal(tmp_path)


def test_text_that_is_not_utf8_and_a_folder_that_is_not_there_are_refused(tmp_path: Path) -> None:
    assert "absent: No such file or directory" in refusal(tmp_path / "absent")
    (tmp_path / "mine.toml").write_bytes(b"\xff")
    assert "mine.toml: 'utf-8' codec" in refusal(tmp_path)


def test_the_folder_of_the_flag_is_used_and_a_wrong_one_ends_the_program(tmp_path: Path) -> None:
    option = f"--preset-dir={tmp_path}"
    (tmp_path / "mine.toml").write_text(GOOD)
    pod = pod_of("preset-mpi-file")
    pod["metadata"]["annotations"]["barrier.frameworkcontroller.microsoft.com/preset"] = "mine"
    result, _ = rendered(pod, *flags.offline([option]))
    (container,) = result["spec"]["containers"]
    assert [one["name"] for one in container["env"]][:2] == ["MY_HUB", "MY_INDEX"]
    with pytest.raises(RefusalError):
        rendered(pod, *flags.offline([]))
    (tmp_path / "mine.toml").write_text("")
    with pytest.raises(OwnPresetsError):
        flags.offline([option])
    serve = ("serve", "--namespace", "x", "--env-files", "none", "--tls-cert-file", "c", "--tls-key-file", "k", option)
    done = subprocess.run(
        [sys.executable, "-m", "frameworkinjector", *serve], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "mine.toml: preset mine: variables: is needed, or files" in done.stderr
