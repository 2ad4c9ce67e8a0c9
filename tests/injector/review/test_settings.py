"""Annotations and their validators."""

import contextlib
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frameworkbarrier.settings import SETTINGS
from frameworkinjector.names import PREFIX, RANK_TOPOLOGY
from frameworkinjector.review.config import EnvFiles
from frameworkinjector.review.reasons import Reason, RefusalError, Ruling
from frameworkinjector.review.settings import KNOWN, Delivery, Hosts, PodSettings, parse
from frameworkinjector.serving.capabilities import syntax_of
from tests.support.rows import each


def test_nothing_said_is_the_default() -> None:
    assert parse({"other.example.org/preset": "x"}) == PodSettings()
    assert (PodSettings().env, PodSettings().barrier.mode, PodSettings().hosts) == (Delivery.AUTO, "init", None)


@each(
    "annotation, text, expected",
    [
        ("preset", " tensorflow ,jax ", ("tensorflow", "jax")),
        ("roles", "My.Role_1=2", {"My.Role_1": 2}),
        ("selector", "  a=b ,\n c in ( x , y ),!d, e", "a=b , c in ( x , y ),!d, e"),
        ("selector", "a=,b!= , c in(),in notin (,x,)", "a=,b!= , c in(),in notin (,x,)"),
        ("output-dir", " /srv/my-gang_1.x/ ", "/srv/my-gang_1.x"),
        ("env", "file", Delivery.FILE),
        ("hosts", "none", Hosts.NONE),
        ("containers", "a,b", ("a", "b")),
        ("gang-index", "9999", 9999),
        ("image", "registry:5000/a/b:c", "registry:5000/a/b:c"),
        ("image", "docker.io/x/y@sha256:" + "a" * 64, "docker.io/x/y@sha256:" + "a" * 64),
        ("template", "my.templates", "my.templates"),
        ("restart-exit-codes", "1, 255", (1, 255)),
    ],
)
def test_a_good_value_is_read(annotation: str, text: str, expected: object) -> None:
    read = parse({PREFIX + annotation: text})
    of_barrier = {setting.annotation: getattr(read.barrier, name) for name, setting in SETTINGS.items()}
    own = getattr(read, annotation.replace("-", "_"), None)
    assert of_barrier.get(annotation, own) == expected
    assert read.given == {annotation}


ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EIGHT = tuple(f"level-{number}" for number in range(8))


@each(
    "text, expected",
    [
        (ZONE, (ZONE,)),
        (f" {ZONE},\t{HOST} ", (ZONE, HOST)),
        ("rack", ("rack",)),
        (f"example.org/{'x' * 63}", (f"example.org/{'x' * 63}",)),
        (",".join(EIGHT), EIGHT),
    ],
)
def test_a_topology_is_the_keys_of_labels(text: str, expected: tuple[str, ...]) -> None:
    read = parse({RANK_TOPOLOGY: text})
    assert (read.rank_topology, read.given) == (expected, frozenset())


@each(
    "text",
    [
        "", " ", ",", f"{ZONE},", f"{ZONE},,{HOST}", f"{ZONE} {HOST}", f"{ZONE}, {ZONE}", ",".join([*EIGHT, "more"]),
        "a/b/c", "/rack", "example.org/", "Example.org/rack", "-rack", "rack=1", "räck", "x" * 64, "x" * 300_000,
        "a," * 100_000,
    ],
)  # fmt: skip
def test_another_topology_is_refused_with_a_sentence_that_names_the_annotation(text: str) -> None:
    with pytest.raises(RefusalError) as refused:
        parse({RANK_TOPOLOGY: text})
    assert refused.value.verdict.reason is Reason.BAD_VALUE
    assert f"Annotation {RANK_TOPOLOGY} is " in str(refused.value)
    assert len(str(refused.value)) < 300


def test_only_this_annotation_is_the_topology() -> None:
    assert parse({f"{RANK_TOPOLOGY}-of-others": "", f"x.{RANK_TOPOLOGY}": ""}) == PodSettings()
    with pytest.raises(RefusalError, match="is not a setting of the barrier"):
        parse({f"{PREFIX}rank-topology": ZONE})


ANY = st.text() | st.text(alphabet="abz019-_./=,:@ ()!in\t$", max_size=200)


@given(values=st.dictionaries(st.sampled_from(KNOWN) | st.text(max_size=20), ANY, max_size=4))
@settings(max_examples=500)
def test_any_annotations_are_read_or_refused_with_a_sentence(values: dict[str, str]) -> None:
    try:
        parse({PREFIX + name: value for name, value in values.items()})
    except RefusalError as refused:
        found = refused.verdict
    else:
        return
    assert found.reason.ruling is Ruling.REFUSED
    assert found.sentence.endswith(".")
    assert "\n" not in found.sentence


@each("piece", ["a", "a.", "a,", "a=", " ", "=", "a in (", "a-", "a=b,", "a/", "(", "a.a/", "0@", "a:"])
@each("name", KNOWN)
def test_no_value_takes_long_to_judge(name: str, piece: str) -> None:
    value = piece * (200_000 // len(piece)) + "\x01"
    started = time.thread_time()
    with pytest.raises(RefusalError):
        parse({PREFIX + name: value})
    # The largest annotations allowed; a pattern with quadratic time would take minutes.
    assert time.thread_time() - started < 5


@each("name", KNOWN)
@given(
    start=st.text(alphabet="a=! ", max_size=4),
    piece=st.text(alphabet="aA0-_./=,:@ ()!", min_size=1, max_size=12) | st.sampled_from(["a= ,", "a in ( ,", "! a,"]),
    end=st.sampled_from(["", "!!", "\x01", "=", ")", " "]),
    length=st.sampled_from([90, 317, 1024, 4096, 65_536, 262_144]),
)
@example(start="", piece="a= ,", end="!!", length=90)
@settings(max_examples=60)
def test_the_time_to_judge_a_value_grows_with_its_length_only(
    name: str, start: str, piece: str, end: str, length: int
) -> None:
    """262,144 characters are the most that the API server accepts as annotations of one object."""
    value = (start + piece * (length // len(piece)))[: length - len(end)] + end
    started = time.thread_time()
    with contextlib.suppress(RefusalError):
        parse({PREFIX + name: value})
    assert time.thread_time() - started < 1 + length / 50_000


@each("minor, expected", [("34", "plain"), ("34+", "plain"), ("35", "quoted"), ("36+", "quoted"), ("", "quoted")])
def test_the_syntax_of_the_file_follows_the_servers_version(minor: str, expected: str) -> None:
    assert syntax_of({"major": "1", "minor": minor}) is EnvFiles(expected)
