"""A run as Markdown with figures beside it, ready to paste into a pull request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..storage.files import write_page

if TYPE_CHECKING:
    from ..storage.stored_run import Run

__all__ = ["write_report"]


def write_report(run: Run, out_dir: Path | str) -> Path:
    """Write `report.md` and its PNG files into `out_dir` and return the path of `report.md`.

    Raises NormbenchError when the folder cannot be written.
    """
    # Matplotlib takes half a second to import: only who writes a report pays for it.
    from ..results.attribution import attribute
    from ..results.derived import derive_results
    from .markdown import render_markdown
    from .pictures import draw_pictures

    results = derive_results(run.records)
    found = attribute(results)
    pictures = draw_pictures(results, found)
    text = render_markdown(run, results, list(pictures), found)
    drawn = {picture.file: content for picture, content in pictures.items() if picture.file is not None}
    return write_page(Path(out_dir), "report.md", text, drawn)
