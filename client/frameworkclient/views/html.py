"""Frameworks as notebooks show them: as tables."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.outlook import ending, task_outlook, waiting
from frameworkclient.views.text import since


class NotebookView(FrameworkView):
    """A Framework; a notebook shows it as a table."""

    def _repr_html_(self) -> str:
        return framework_html(self, datetime.now(UTC))


class FrameworkViews(tuple[FrameworkView, ...]):
    """Some Frameworks; a notebook shows them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return list_html(self, datetime.now(UTC))


def list_html(views: Iterable[FrameworkView], now: datetime) -> str:
    """Return Frameworks as a table."""
    rows = [
        (
            view.namespace,
            view.name,
            view.state or "",
            view.ready_text,
            str(view.attempts),
            view.result.phrase if view.result else "",
            since(view.created, now),
            waiting(view, now),
        )
        for view in views
    ]
    return _table(("namespace", "name", "state", "ready", "attempts", "result", "age", "waits for"), rows)


def framework_html(view: FrameworkView, now: datetime) -> str:
    """Return a Framework with its Tasks as a table."""
    rows = [
        (
            task.name,
            task.state,
            str(task.attempt + 1),
            task.node,
            task.ip,
            ending(task.completion) if task.completion else "",
            task_outlook(view, role, task),
        )
        for role in view.roles
        for task in role.tasks
    ]
    head = ("task", "state", "attempt", "node", "address", "ended", "next")
    return list_html([view], now) + _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
