"""What the Frameworks of a namespace share."""

import gc

from frameworkcontroller.core.policies.shares import REMEMBERED, PerNamespace, Shares


def test_what_a_namespace_shares_goes_with_it_and_not_while_somebody_is_in_it() -> None:
    """A controller kept three kilobytes for each namespace that there ever was."""
    each = PerNamespace(Shares)
    kept, left = each["kept"], each["left"]
    assert each["left"] is left
    left.idle.note("uid", 1)
    del left
    assert each["left"].idle._total == 1, "it is remembered for a while"
    for number in range(2 * REMEMBERED):
        assert each[f"team-{number}"] is not kept
    gc.collect()
    assert len(each._kept) == REMEMBERED + 1
    assert each["kept"] is kept
    assert each["left"].idle._total == 0
