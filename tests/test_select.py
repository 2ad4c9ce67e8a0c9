"""Which modules a run leaves out."""

import pytest

from tests.support import select
from tests.support.select import ALWAYS, NOBODY, WATCHED, hashes, left_out, tree

MODULES = ["tests/localcluster/test_node.py", "tests/demo/test_demo_cluster.py", "tests/kube/http/test_rest.py"]
FILES = {
    "tools/localcluster/node/node.py": "1",
    "tools/frameworkdemo/gang.py": "2",
    "examples/mnist.py": "3",
    "kube/store.py": "4",
    "docs/x.md": "5",
}
RECORD = hashes(FILES)
BY_PATH = set(MODULES[:2])


@pytest.mark.parametrize(
    ("changed", "out"),
    [
        pytest.param({}, BY_PATH, id="nothing"),
        pytest.param({"tools/localcluster/node/node.py": "9"}, {MODULES[1]}, id="a file that one watches"),
        pytest.param({"tools/localcluster/new.py": "9"}, {MODULES[1]}, id="a new one"),
        pytest.param({"examples/mnist.py": "9"}, {MODULES[0]}, id="the second path of another"),
        pytest.param({"tests/demo/test_demo_cluster.py": "9"}, {MODULES[0]}, id="its own folder"),
        pytest.param({"kube/store.py": "9"}, BY_PATH, id="what has tests that always run"),
        pytest.param({"docs/x.md": "9", "CHANGELOG.md": "9"}, BY_PATH, id="what nobody watches"),
        pytest.param({"client/list.py": "9"}, {MODULES[0]}, id="a program that a tool calls"),
        pytest.param({"new/x.py": "9"}, set(), id="what is not known"),
    ],
)
def test_a_change_selects_who_watches_it(changed: dict[str, str], out: set[str]) -> None:
    assert left_out(MODULES, FILES | changed, RECORD) == out


def test_what_is_made_from_programs_and_pages_is_not_left_out() -> None:
    modules = [f"tests/release/test_{name}.py" for name in ("generated", "permissions", "operations")]
    assert left_out(modules, FILES, RECORD) == set(modules[1:])
    assert left_out(modules, FILES | {"docs/operate/install.md": "9"}, RECORD) == set()


@pytest.mark.parametrize(
    ("changed", "runs"),
    [("injector/x.py", {0}), ("kube/x.py", {0, 2}), ("barrier/x.py", {0, 1}), ("client/x.py", set())],
)
def test_slow_tests_of_a_program_run_if_it_or_what_it_stands_on_has_changed(changed: str, runs: set[int]) -> None:
    names = ("injector/test_webhook", "barrier/test_roster", "controller/test_etcd_restored")
    slow = [f"tests/apiserver/{name}.py" for name in names]
    always = "tests/apiserver/controller/test_life.py"
    assert left_out([*slow, always], FILES, RECORD) == set(slow)
    assert left_out([*slow, always], FILES | {changed: "9"}, RECORD) == set(slow) - {slow[place] for place in runs}


def test_a_file_that_is_gone_and_a_path_that_was_not_watched_then_have_changed() -> None:
    left = {path: one for path, one in FILES.items() if path != "tools/frameworkdemo/gang.py"}
    assert left_out(MODULES, left, RECORD) == {MODULES[0]}
    older = {path: digest for path, digest in RECORD.items() if path != "examples/"}
    assert left_out(MODULES, FILES, older) == {MODULES[0]}
    assert left_out(MODULES, FILES, None) == set(), "without a record everything runs"


def test_each_file_of_the_tree_is_known() -> None:
    known = (*hashes({}), *ALWAYS, *NOBODY)
    assert [path for path in tree() if not path.startswith(known)] == []


def test_each_path_that_is_named_is_there() -> None:
    names = {path for group, paths in WATCHED.items() for path in (group, *paths)} | {*ALWAYS, *NOBODY} - {
        select.RECORD
    }
    files = list(tree())
    assert [name for name in names if not any(file.startswith(name) for file in files)] == []
