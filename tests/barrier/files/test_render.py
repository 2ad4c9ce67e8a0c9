"""What is in the files: values in the kubelet's env files, large gangs, and templates of a user."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frameworkbarrier import settings
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import container as container_module
from frameworkbarrier.files import environment as subject
from frameworkbarrier.files import render
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.variables import Variable
from tests.barrier.files.written import files, read_env_file, variables
from tests.barrier.gangs import environment, ip, released, roster


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
@example("'")
@example("a\r\nb")
@example("a\nb=c")
def test_any_value_survives_an_env_file_or_lies_in_a_file_that_is_named(value: str) -> None:
    overflow = subject.OverflowFiles("/mnt")
    wanted = [Variable("X", value), Variable("Y", "1")]
    budget = subject.Budget(wanted, overflow, "quoted")
    values = read_env_file(subject.env_file(list(map(budget.take, wanted)), "quoted"))
    if "X" in values:
        assert values == {"X": value, "Y": "1"}
    else:
        assert values == {"X_FILE": "/mnt/X", "Y": "1"}
        assert overflow.files == {"X": value}


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ('it\'s "here" # all', True),
        ("x" * 32 * 1024, True),
        ("x" * (32 * 1024 + 1), False),
        (" a", False),
        ("a\t", False),
        ("a\nb", False),
        ("a\r\nb", False),
        ("a\\", False),
    ],
    ids=["quotes", "32 KiB", "more", "blank before", "blank after", "newline", "CR LF", "backslash at the end"],
)
def test_a_value_that_plain_syntax_cannot_hold_lies_in_a_file(value: str, *, fits: bool) -> None:
    """As the parser of Kubernetes 1.34 reads it: the line up to its end, without the blanks around it."""
    overflow = subject.OverflowFiles("/mnt")
    wanted = Variable("X", value)
    line = subject.env_file([subject.Budget([wanted], overflow, "plain").take(wanted)], "plain")
    assert line == (f"X={value}\n" if fits else "X_FILE=/mnt/X\n")
    assert overflow.files == ({} if fits else {"X": value})


def test_a_shortened_value_is_reported() -> None:
    overflow = subject.OverflowFiles("/folder")
    long = Variable("TF_CONFIG", "x" * 100, short="y")
    assert overflow.fit(long, 10, "env").value == "y"
    assert overflow.warnings == ["TF_CONFIG (100 bytes) does not fit into env: shortened"]


@pytest.mark.parametrize(("chief", "count"), [(1, 4_000), (0, 10_000)])
def test_workers_without_ps_always_learn_of_each_other(chief: int, count: int) -> None:
    """A sparse form would let each of them believe that it is alone."""
    made = files(roster({"chief": chief, "worker": count}), "worker", 7, FB_PRESET="tensorflow")
    values = read_env_file(made["env"].data.decode())
    assert "TF_CONFIG" not in values
    assert values["TF_CONFIG_FILE"] == "/mnt/frameworkbarrier/TF_CONFIG"
    assert len(json.loads(made["TF_CONFIG"].data)["cluster"]["worker"]) == count
    assert ("TF_CONFIG_FILE" in made["injector.sh"].data.decode()) is (count == 10_000)


def test_of_many_roles_the_presets_variables_stay_in_env_and_only_what_is_long_is_spilled() -> None:
    shape = {f"role{number}": 1 for number in range(300)} | {"worker": 2}
    values = variables(roster(shape), "worker", 1, FB_PRESET="pytorch")
    assert (values["RANK"], values["MASTER_PORT"]) == ("1", "29500")
    assert not [name for name in values if name.endswith("_FILE")]
    assert len(files(roster(shape), "worker", 1, FB_PRESET="pytorch")["env"].data) <= 60 * 1024


def test_several_presets_of_a_large_gang_take_little_more_memory_than_one() -> None:
    gang = released(roster({"worker": 3000}))

    def peak(presets: str) -> int:
        read = settings.parse(environment(FB_PRESET=presets))
        render.render(gang, read, Container())  # what is compiled and kept once does not count
        tracemalloc.start()
        try:
            render.render(gang, read, Container())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak("pytorch,jax,mpi") < 1.5 * peak("pytorch")


def text_of(template: str, name: str = "x", **environ: str) -> str:
    """What a template becomes in a gang of two workers and a head."""
    container = Container(templates={name: template})
    return files(roster({"worker": 2, "head": 1}), "worker", 1, container, **environ)[name].data.decode()


def test_a_template_sees_the_gang_and_what_its_presets_use() -> None:
    assert text_of("{{ gang.name }} {{ me.role }}-{{ me.index }} {{ tasks | length }}") == "mnist worker-1 3"
    text = "{{ head.name | host }} {{ nnodes }} {{ gang.id }} {{ me.attempt }} {{ roles[0].gpus }}"
    assert text_of(text, FB_PRESET="ray") == f"{ip(3)} None 0_cm-uid 0 0"


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
        ("{% for a in roles %}" * 21 + "{% endfor %}" * 21, "template x: SyntaxError: too many statically nested"),
        ("{{ 1" + "0" * 5000 + " }}", "template x: ValueError: Exceeds the limit"),
        ("{{ '\\ud800' }}", "template x: UnicodeEncodeError"),
        ("{{ fail('we need three workers') }}", "we need three workers"),
    ],
)
def test_what_a_template_cannot_do_is_a_fault_that_names_it(text: str, what: str) -> None:
    with pytest.raises(SettingsError) as caught:
        text_of(text)
    assert str(caught.value).startswith(what)


@pytest.mark.parametrize(
    "name",
    ["discover_hosts.sh", "env", "hosts", "generation", "framework.json", "worker.hosts", "starts", "restarting", ""],
)
def test_a_template_may_not_replace_a_file_of_a_preset_or_of_the_barrier(name: str) -> None:
    says = f"template {name}.j2: '{name or 'nothing'}' is the name of a file of the barrier"
    with pytest.raises(SettingsError, match=says):
        text_of("x", name, FB_PRESET="horovod", FB_RESTART="in-place", FB_MODE="sidecar")


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


@pytest.mark.parametrize(
    "content", [None, {}, {"x.j2": b"\xff\xfe"}, {"x.j2": b"x" * 1_100_000}], ids=["absent", "empty", "binary", "huge"]
)
def test_a_folder_without_usable_templates_is_a_fault_of_the_settings(
    tmp_path: Path, content: dict[str, bytes] | None
) -> None:
    folder = tmp_path / "templates"
    if content is not None:
        folder.mkdir()
        for name, data in content.items():
            (folder / name).write_bytes(data)
    with pytest.raises(SettingsError, match="FB_TEMPLATE_DIR"):
        container_module.read(str(folder))
