"""The predefined completion codes are those of the table in the reference."""

import pytest

from frameworkcontroller.api.codes import NEVER_RETRIED, PREDEFINED, Code, is_reserved
from tests.controller import reference

CODES = reference.predefined_codes()


def test_the_codes_are_those_of_the_reference_and_reserved() -> None:
    known = {int(code): (phrase, kind.name, kind.attributes) for code, (phrase, kind) in PREDEFINED.items()}
    assert known == CODES
    assert {int(code) for code in Code} == set(CODES)
    assert all(map(is_reserved, CODES))


@pytest.mark.parametrize(
    ("code", "reserved"),
    [(-1000, False), (-999, True), (0, True), (1, False), (199, False), (200, True), (219, True), (220, False)],
)
def test_reserved_ranges_include_their_ends(code: int, reserved: bool) -> None:
    assert is_reserved(code) == reserved


def test_what_users_asked_for_is_permanent() -> None:
    assert all(CODES[code][1:] == ("Failed", ("Permanent",)) for code in NEVER_RETRIED)
