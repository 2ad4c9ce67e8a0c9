"""`python -m frameworkdemo.monitoring`: write `deploy/monitoring` and the table of the manual."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import yaml

from frameworkdemo.manifests import REPOSITORY
from frameworkdemo.monitoring import alerts
from frameworkdemo.monitoring.dashboard import dashboard

if TYPE_CHECKING:
    from pathlib import Path

MANUAL: Final = REPOSITORY / alerts.RUNBOOK
_FOLDER: Final = REPOSITORY / "deploy" / "monitoring"
_GENERATED: Final = "# Written by `make manifests` from demo/frameworkdemo/monitoring.\n"
_BEGIN: Final = "<!-- written by `make manifests` -->\n"
_END: Final = "\n<!-- end -->"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML's signature
        return True


def files() -> dict[Path, str]:
    """Return each file with its text, the manual with a new table."""
    head, _, rest = MANUAL.read_text().partition(_BEGIN)
    return {
        _FOLDER / "rules.yaml": _yaml(alerts.rules()),
        _FOLDER / "prometheusrule.yaml": _yaml(alerts.prometheus_rule()),
        _FOLDER / "dashboard.json": json.dumps(dashboard(), indent=2) + "\n",
        MANUAL: f"{head}{_BEGIN}\n{alerts.table()}\n{_END}{rest.partition(_END)[2]}",
    }


def _yaml(document: dict[str, Any]) -> str:
    dumped: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)
    return _GENERATED + dumped


def main() -> int:
    """Write the files and return 0."""
    for file, text in files().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
