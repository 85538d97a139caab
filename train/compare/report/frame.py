"""A page around its sections: head, style, links, data and scripts, all in one file."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from train.compare.report.markup import PAGE, code_script, data_script, escape, filled

SECTION = re.compile(r'<section id="(\w+)" data-title="([^"]+)">.*?</section>\n*', re.DOTALL)


@dataclass(frozen=True)
class Finding:
    """One tile at the head of a page: a caption, what stands out, and a sentence to it."""

    caption: str
    headline: str
    sentence: str


def without(template: str, names: Collection[str]) -> str:
    """A template of sections without those of these names."""
    return SECTION.sub(lambda found: "" if found.group(1) in names else found.group(0), template)


def framed(
    sections: str,
    *,
    kind: str,
    title: str,
    meta: str,
    findings: Sequence[Finding],
    example: str,
    data: Any,
    scripts: Sequence[Path],
) -> str:
    """The page as HTML.

    Args:
        sections: the page's own, as HTML.
        kind: a word for what the page is.
        title: as text.
        meta: a line under the title, as HTML.
        example: of words by which cells are filtered.
        data: what the scripts draw from.
        scripts: the page's, in the order in which they build on each other.
    """
    code = "\n".join(script.read_text() for script in scripts)
    return filled(
        (PAGE / "frame.html").read_text(),
        {
            "kind": escape(kind),
            "title": escape(title),
            "meta": meta,
            "findings": "".join(map(_tile, findings)),
            "links": "".join(
                f'<a href="#{name}">{words}</a>' for name, words in SECTION.findall(sections)
            ),
            "example": escape(example),
            "sections": sections,
            "style": (PAGE / "page.css").read_text(),
            "data": data_script("data", data),
            "plotly": code_script(get_plotlyjs()),
            "script": code_script(f'(() => {{\n"use strict";\n{code}\n}})();'),
        },
    )


def _tile(finding: Finding) -> str:
    return (
        f"<li><small>{escape(finding.caption)}</small><strong>{escape(finding.headline)}</strong>"
        f"<span>{escape(finding.sentence)}</span></li>"
    )
