"""Who is known to be an API server: who brings the word of the question that is under way, for a while."""

from frameworkinjector.serving.callers import KNOWN_SECONDS, MAX_BYTES, Callers


def test_only_who_brings_the_word_is_known_and_for_a_while() -> None:
    now, numbers = 0.0, list[int]()
    callers = Callers("system", numbers.append, lambda: now)
    callers.hear(b"anything", "192.0.2.1")
    callers.word = "3f6a"
    callers.hear(b'{"word": "3f6b"}', "192.0.2.2")
    callers.hear(b"3f6a".ljust(MAX_BYTES + 1), "192.0.2.3")
    callers.hear(b"3f6a", None)
    assert not callers.known
    for source in ("192.0.2.4", "192.0.2.5"):
        callers.hear(b'{"word": "3f6a"}', source)
    now = KNOWN_SECONDS / 2
    callers.hear(b'{"word": "3f6a"}', "192.0.2.4")
    callers.forget()
    # The replica's call to itself comes from loopback.
    own = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert (set(callers.known), numbers[-1]) == ({"192.0.2.4", "192.0.2.5"} | own, 2)
    now = KNOWN_SECONDS
    callers.forget()
    assert (set(callers.known), numbers[-1]) == ({"192.0.2.4"} | own, 1)
