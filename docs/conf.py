"""The site: Sphinx reads the pages where they stand, so that a link leads to the same page there and in the repository.

`make docs` builds it. `PROJECT_URL` is the address of the repository, for links to what is no page; "" leaves them out.
"""

import os
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PROJECT_URL: Final = os.environ.get("PROJECT_URL", "")

project = "FrameworkController"
author = "the FrameworkController developers"
copyright = "2026 The FrameworkController for Python developers"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

root_doc = "docs/index"
include_patterns = [
    *(
        "docs/**.md",
        "examples/README.md",
        "examples/**/README.md",
        "charts/*/README.md",
        "tools/localcluster/README.md",
    ),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
]
exclude_patterns = [".venv", "build", "dist", "tests", ".*"]
extensions = [
    *("myst_parser", "sphinx_copybutton", "sphinx.ext.autodoc", "sphinx.ext.napoleon"),
    "frameworkrelease.generate.site",
]
myst_heading_anchors = 6
copybutton_prompt_text = "$ "
# The prose of the code has single backticks.
default_role = "code"
# Flags keep their dashes, and messages their quotes, so that both are found and can be copied.
smartquotes = False
# A block without a language is text.
highlight_language = "none"
# The SDK: members in the order of the source, without the module before each name, one line for each parameter.
autodoc_default_options = {"members": True, "member-order": "bysource"}
add_module_names = napoleon_attr_annotations = False
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"FrameworkController {release}"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_favicon = html_logo = "site/static/logo.svg"
html_extra_path = ["site/extra"]
html_copy_source = False
html_search_scorer = str(ROOT / "docs" / "site" / "scorer.js")
html_theme_options = (
    {"source_repository": PROJECT_URL, "source_branch": "main", "source_directory": ""} if PROJECT_URL else {}
)
