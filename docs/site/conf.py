"""How Sphinx builds the site; `scripts/docs` runs it with docs/ as the source. Every warning is an
error."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[2])
)  # the extensions are named from the root of the repo

project = "Tontine"
author = "The Tontine authors"
copyright = author  # noqa: A001 - Sphinx calls it so
version = release = installed("tontine")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docs.site.pages",
    "docs.site.commands",
    "docs.site.reference",
]
exclude_patterns = ["site/**"]
smartquotes = False  # an option begins with two hyphens, not with a dash

# Anchors as GitHub makes them, so that a link to a heading works in both places.
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a changelog and a record of a decision may begin at any level

# Docstrings put names between single backticks: a link where it is a name of ours, code where it is
# not.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:obj", ".*"), ("py:.*", r"(?!tontine\b).*|.*\.T")]

_NOT_OURS = "BaseException,Sequence,dict,object,str"
autodoc_default_options = {"members": True, "undoc-members": True, "inherited-members": _NOT_OURS}
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
# docs/api/index.md tells what they stand for.
_WORDS = (
    "After AnyTask Args Before Configure Duration Errors Function Missed Moment OnLost Opened "
    "Overlap StandIn Start Wait Which"
)
autodoc_type_aliases = {word: word for word in _WORDS.split()}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "Tontine"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
_ACCENTS = {"light": ("#0f766e", "#115e59"), "dark": ("#5eead4", "#99f6e4")}
html_theme_options = {
    f"{mode}_css_variables": {"color-brand-primary": primary, "color-brand-content": content}
    for mode, (primary, content) in _ACCENTS.items()
}
