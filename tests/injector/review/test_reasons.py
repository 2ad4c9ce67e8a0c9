"""Every reason has one name and one sentence."""

import re
import string

from frameworkinjector.review.reasons import Reason, RefusalError, Ruling, shown
from frameworkinjector.serving.metrics import Metrics
from tests.support.rows import each

CODES = {
    Ruling.INJECTED: {200},
    Ruling.LEFT_ALONE: {200},
    # 422: the controller does not retry; 500: it does.
    Ruling.REFUSED: {422, 500},
    Ruling.REJECTED: {400, 404, 405, 408, 413, 415},
}


@each("reason", Reason, ids=lambda one: one.slug)
def test_a_reason_has_one_sentence_and_a_code_that_fits_its_ruling(reason: Reason) -> None:
    fields = {name for _, name, _, _ in string.Formatter().parse(reason.template) if name}
    sentence = str(RefusalError(reason, **dict.fromkeys(fields - {"prefix"}, "x")))
    assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", sentence)
    assert ". " not in sentence
    assert reason.code in CODES[reason.ruling]


def test_no_two_reasons_share_a_sentence() -> None:
    # Two names of one value would be one member.
    assert len({one.template for one in Reason}) == len(Reason.__members__)


def test_each_reason_has_a_series_from_the_start() -> None:
    pattern = r'^frameworkinjector_requests_total\{outcome="([^"]+)",reason="([^"]+)"\} 0\.0$'
    text = Metrics().text().decode()
    found = re.findall(pattern, text, re.MULTILINE)
    assert sorted(found) == sorted((one.ruling.value, one.slug) for one in Reason)
    assert "frameworkinjector_request_duration_seconds_bucket" in text


@each(
    "text, expected",
    [("a", "'a'"), ("a\nb\x1b", r"'a\nb\x1b'"), ("x" * 100, f"'{'x' * 79}…'"), ("it's", '"it\'s"')],
)
def test_what_a_user_wrote_is_quoted_and_short(text: str, expected: str) -> None:
    assert shown(text) == expected
