"""Text, data and files put into a page so that none of them can end it early."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from train.files import finite

PAGE = Path(__file__).parent / "page"
"""The template, the style and the scripts."""

MISSING = "–"  # noqa: RUF001 (a dash where a table has no value)


def escape(text: object) -> str:
    """`text` as HTML, in an element or in a quoted attribute."""
    return html.escape(str(text), quote=True)


def data_script(identifier: str, value: Any) -> str:
    """A script element that holds `value` as strict JSON; numbers that are not finite are null.

    Every `<` is written as an escape of JSON: no text in the data ends the element.
    """
    text = json.dumps(finite(value), allow_nan=False, separators=(",", ":"))
    return f'<script type="application/json" id="{identifier}">{_shielded(text)}</script>'


def _shielded(json_text: str) -> str:
    return json_text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def code_script(code: str) -> str:
    """A script element with this code.

    Raises:
        ValueError: if the code would end the element itself.
    """
    if re.search(r"</script|<!--", code, re.IGNORECASE):
        raise ValueError("the script holds a tag that would end its element")
    return f"<script>{code}</script>"


def link(target: Path, start: Path, text: str) -> str:
    """A link to `target`, relative to the folder `start`, as long as they move together."""
    return f'<a href="{escape(reference(target, start))}">{escape(text)}</a>'


def reference(target: Path, start: Path) -> str:
    """The relative address of `target` from a page in the folder `start`."""
    relative = Path(os.path.relpath(target.resolve(), start.resolve())).as_posix()
    # A first part with a colon would be read as the scheme of an address.
    return quote(f"./{relative}")


def sortable(title: str, kind: str = "text", unit: str = "", explanation: str = "") -> str:
    """A column's head, by which a table of cells is sorted.

    Args:
        kind: `text` or `number`.
    """
    small = f" <small>{escape(unit)}</small>" if unit else ""
    told = f' title="{escape(explanation)}"' if explanation else ""
    return (
        f'<th scope="col" aria-sort="none" class="{kind}"><button type="button" data-as="{kind}"'
        f"{told}>{escape(title)}{small}</button></th>"
    )


def filled(template: str, parts: Mapping[str, str]) -> str:
    """`template` with each `{{name}}` replaced once: what is put in is not read again.

    Raises:
        KeyError: for a name without a part.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], template)
