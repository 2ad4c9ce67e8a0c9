"""One test of many rows, where hundreds of cases would compare data with data: `@each("name, value", ROWS)`.

It stands where `@pytest.mark.parametrize` would, runs the test with every row, and names all that fail. Fixtures are
made once for all rows. `ROWS=substring` leaves out the rows whose names do not have it.
"""

import functools
import inspect
import os
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

MOST_SHOWN = 20


def each(
    names: str, rows: Iterable[Any], ids: Callable[[Any], str] | Iterable[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that makes one test of all rows.

    Args:
        names: Of the arguments, with commas between them.
        rows: The values, or `pytest.param` of them; a tuple for more than one name.
        ids: Their names, or what gives the name of one; default: their texts.
    """
    arguments = [name.strip() for name in names.split(",")]
    named = list(_named(list(rows), ids, len(arguments)))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for name, values in named:
                if os.environ.get("ROWS", "") in name:
                    try:
                        test(**fixtures, **dict(zip(arguments, values, strict=True)))
                    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 -- all rows are run and told
                        failures.append(f"{name}: {_told(error)}")
            assert named, "there are no rows"
            assert not failures, f"{len(failures)} of {len(named)} rows:\n" + "\n".join(failures[:MOST_SHOWN])

        whole = inspect.signature(test)
        left = [parameter for name, parameter in whole.parameters.items() if name not in arguments]
        run.__signature__ = whole.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _named(
    rows: list[Any], ids: Callable[[Any], str] | Iterable[str] | None, width: int
) -> Iterable[tuple[str, tuple[Any, ...]]]:
    given = None if ids is None or callable(ids) else list(ids)
    for place, row in enumerate(rows):
        is_param = hasattr(row, "values") and hasattr(row, "marks")
        values = row.values if is_param else row if width > 1 else (row,)
        name = row.id if is_param and row.id else None
        if name is None:
            name = given[place] if given is not None else "-".join(map(ids if callable(ids) else str, values))
        yield str(name), values


def _told(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).strip() or type(error).__name__
    return f"{text[:2000]} (line {frame.lineno} of {Path(frame.filename).name})"
