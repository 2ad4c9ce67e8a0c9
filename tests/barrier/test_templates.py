from pathlib import Path

import pytest

from frameworkbarrier import settings
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import container as container_module
from frameworkbarrier.files import render
from frameworkbarrier.files.container import Container
from tests.barrier.gangs import environment, released, roster


def rendered(**templates: str) -> dict[str, str]:
    opened = released(roster({"ps": 1, "worker": 2}), "worker", 1)
    container = Container(templates=templates)
    files = render.render(opened, settings.parse(environment("worker", 1)), container).files
    return {file.name: file.data.decode() for file in files}


def test_a_template_sees_the_gang() -> None:
    assert rendered(x="{{ gang.name }} {{ me.role }}-{{ me.index }} {{ tasks | length }}")["x"] == "mnist worker-1 3"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ok\n{{ nonsense }}", "template x, line 2: 'nonsense' is undefined"),
        ("{% for %}", "template x, line 1: "),
        ("{{ me.nonsense }}", "template x, line 1: "),
        ("{{ 1 // 0 }}", "template x, line 1: ZeroDivisionError"),
        ("{% include 'y' %}", "template x"),
        ("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "template x, line 1: "),
        ("{{ ''.__class__.__mro__ }}", "template x, line 1: "),
        ("{{ roles.append(1) }}", "template x, line 1: "),
    ],
)
def test_what_a_template_cannot_do_is_a_fault_that_names_it(text: str, what: str) -> None:
    with pytest.raises(SettingsError) as caught:
        rendered(x=text)
    assert str(caught.value).startswith(what)


def test_a_wrong_syntax_is_found_while_waiting() -> None:
    with pytest.raises(SettingsError, match="template x, line 3"):
        render.warm_up(settings.parse(environment()), Container(templates={"x": "\n\n{{"}))


def test_templates_are_read_as_a_configmap_volume_has_them(tmp_path: Path) -> None:
    hidden = tmp_path / "..2026_11_21"
    hidden.mkdir()
    (hidden / "a.conf.j2").write_text("A")
    (tmp_path / "..data").symlink_to(hidden.name)
    (tmp_path / "a.conf.j2").symlink_to("..data/a.conf.j2")
    (tmp_path / "README").write_text("no template")
    assert container_module.read(str(tmp_path)).templates == {"a.conf": "A"}


@pytest.mark.parametrize("kind", ["absent", "empty", "binary", "huge"])
def test_a_folder_without_usable_templates_is_a_fault_of_the_settings(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "templates"
    if kind != "absent":
        folder.mkdir()
    if kind == "binary":
        (folder / "x.j2").write_bytes(b"\xff\xfe")
    if kind == "huge":
        (folder / "x.j2").write_text("x" * 1_100_000)
    with pytest.raises(SettingsError, match="FB_TEMPLATE_DIR"):
        container_module.read(str(folder))
