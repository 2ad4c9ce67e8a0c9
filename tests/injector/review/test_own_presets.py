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


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("mine", "port = ", "mine.toml: Invalid value"),
        ("mine", "", "preset mine: variables: is needed, or files"),
        ("mine", "[variables]", "preset mine: variables: is needed, or files"),
        ("mine", "x = 1", "preset mine: x: there is no such field; there are variables, files"),
        ("mine", "variables = 1", "preset mine: variables: must be a table"),
        ("mine", "[variables]\nA = 1", "preset mine: variables.A: must be the text of a template"),
        ("mine", '[variables]\n"A B" = ""', "preset mine: variables: 'A B' must be the name of a variable"),
        (
            "mine",
            '[variables]\nFB_PRESET = ""',
            "preset mine: variables: 'FB_PRESET' must be the name of a variable, not",
        ),
        ("mine", '[files]\n"../x" = ""', "preset mine: files: '../x' must be the name of a file"),
        ("mine", f"port = 0\n{VARIABLE}", "preset mine: port: must be a whole number from 1 to 65535"),
        ("mine", f"port = true\n{VARIABLE}", "preset mine: port: must be a whole number"),
        ("mine", f'heads = "x"\n{VARIABLE}', "preset mine: heads: must be a list of names of roles"),
        ("mine", f"gpu_slots = 1\n{VARIABLE}", "preset mine: gpu_slots: must be true or false"),
        ("mine", f"doc = 1\n{VARIABLE}", "preset mine: doc: must be a text"),
        ("mine", f'optional = ["B"]\n{VARIABLE}', "preset mine: optional: B is not one of the variables"),
        ("My", VARIABLE, "preset 'My': the name must be lower-case"),
        ("a,b", VARIABLE, "preset 'a,b': the name must be"),
    ],
)
def test_a_wrong_definition_is_refused_with_file_and_field(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / f"{name}.toml").write_text(text)
    with pytest.raises(OwnPresetsError) as refusal:
        read(tmp_path)
    assert f"--preset-dir {tmp_path}: {name}.toml: " in str(refusal.value)
    assert says in str(refusal.value)


def test_definitions_that_no_variable_could_hold_are_refused(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"big{number}.toml").write_text(f'[variables]\nA = "{"x" * (own_presets.MAX_BYTES // 2)}"')
    with pytest.raises(OwnPresetsError, match=r"the presets take [0-9]+ bytes, at most 98304 are possible"):
        read(tmp_path)


def test_text_that_is_not_utf8_and_a_folder_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OwnPresetsError, match="absent: No such file or directory"):
        read(tmp_path / "absent")
    (tmp_path / "mine.toml").write_bytes(b"\xff")
    with pytest.raises(OwnPresetsError, match=r"mine\.toml: 'utf-8' codec"):
        read(tmp_path)


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
