"""`python -m frameworkrelease`: write every file that is made from code or from the chart."""

from __future__ import annotations

import sys

from frameworkcontroller.api import crd
from frameworkcontroller.engine.settings import FILE_NAME, default_config
from frameworkrelease import chart, fields, matrix, performance, permissions, plain, schema
from frameworkrelease.chart import CHART


def main() -> int:
    """Write the files and return 0."""
    # The chart first, because the manifests are made from it.
    (CHART / "files" / "crd.yaml").write_text(crd.text())
    (CHART / "files" / FILE_NAME).write_text(default_config())
    schema.FILE.write_text(schema.text(schema.FILE.read_text()))
    fields.PAGE.write_text(fields.page(fields.PAGE.read_text()))
    plain.FILE.write_text(plain.manifests())
    permissions.PAGE.write_text(permissions.page(permissions.PAGE.read_text(), chart.rendered()))
    matrix.PAGE.write_text(matrix.page(matrix.PAGE.read_text(), performance.read(matrix.FILE)))
    performance.PAGE.write_text(performance.tables(performance.PAGE.read_text(), performance.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
