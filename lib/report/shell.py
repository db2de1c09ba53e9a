"""What all pages of the report share: navigation, styles, their one script, and findings with their figures."""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path

from lib.workbook.display import table_style
from lib.workbook.markup import safe_markdown
from lib.workbook.profiles import NOTEBOOKS

TEMPLATES = Path(__file__).parent / "templates"
HERE = " aria-current='page'"
SHORT = {  # names of pages where all of them stand in one row
    "index": "Workbook",
    "01_data_gen": "01 data",
    "02_context_baselines": "02 baselines",
    "03_cot_augmentation": "03 CoT",
    "04_finetuned_search": "04 fine-tuned",
    "05_lambdamart_rrf": "05 LambdaMART",
    "06_tool_retrieval": "06 tools",
    "07_planner": "07 plans",
    "08_dsl_retrieval": "08 few-shots",
    "09_dsl_ablation": "09 workflows",
    "11_transfer": "11 transfer",
    "12_beyond": "12 beyond",
}
COMMITTED = {  # profiles whose reports the repository carries
    "full": "everything at the papers' sizes",
    "quick": "all retrieval at the papers' sizes, language models on samples of the test cases",
}


def navigation(current: str, switch: str = "") -> str:
    """Links between the index and the notebooks' pages, and (HTML) to the report of another profile."""
    links = [
        f"<a href='{page}.html' title='{page.replace('_', ' ')}'{HERE if page == current else ''}>{SHORT[page]}</a>"
        for page in ("index", *NOTEBOOKS)
    ]
    return f"<nav class='site' aria-label='Pages'>{''.join(links)}{switch}</nav>"


def profile_switch(profile: str, page: str, root: Path) -> str:
    """This page in the committed reports that are there, the current one marked; empty where it stands in one only."""
    there = [name for name in COMMITTED if name == profile or (root / "reports" / name / f"{page}.html").exists()]
    if there in ([], [profile]):
        return ""
    links = [
        f"<a href='../{name}/{page}.html' title='{html.escape(COMMITTED[name])}'"
        f"{' aria-current=true' if name == profile else ''}>"
        f"{name}</a>"
        for name in there
    ]
    return f"<span class='switch'>Profile: {' '.join(links)}</span>"


def pager(notebook: str) -> str:
    """Links to the pages before and after a notebook's."""
    pages = ["index", *NOTEBOOKS]
    place = pages.index(notebook)
    names = {page: "Overview" if page == "index" else page.replace("_", " ") for page in pages}
    links = f"<a rel='prev' href='{pages[place - 1]}.html'>← {names[pages[place - 1]]}</a>"
    if place + 1 < len(pages):
        links += f"<a rel='next' href='{pages[place + 1]}.html'>{names[pages[place + 1]]} →</a>"
    return f"<nav class='pager' aria-label='Previous and next page'>{links}</nav>"


def style_sheet() -> str:
    from pygments.formatters import HtmlFormatter

    own = (TEMPLATES / "report" / "report.css").read_text(encoding="utf-8")
    light, dark = (HtmlFormatter(style=name).get_style_defs(".highlight") for name in ("xcode", "github-dark"))
    return f"{table_style()}{light}@media screen and (prefers-color-scheme: dark) {{{dark}}}{own}"


def script() -> str:
    return (TEMPLATES / "report" / "report.js").read_text(encoding="utf-8")


def policy(code: str, pictures: str = "data:") -> str:
    """A page's content security policy: its own script runs, pictures are inside, and nothing is loaded.

    Args:
        code: the script.
        pictures: their source; `'none'` for a page without any.
    """
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src {pictures}; "
        "base-uri 'none'; form-action 'none'"
    )


def highlight_html(entry: dict, folder: Path, picture: bool = True) -> str:
    """A sentence (Markdown) and, where named, a figure embedded with its alt text."""
    from nbconvert.filters import markdown2html

    return markdown2html(safe_markdown(entry["text"])) + (figure_html(entry, folder) if picture else "")


def figure_html(entry: dict, folder: Path) -> str:
    """The figure that a highlight names, with its alt text; empty where there is none."""
    path = folder / "figures" / f"{entry['figure']}.png"
    if not entry["figure"] or not path.exists():
        return ""
    picture = base64.b64encode(path.read_bytes()).decode()
    alt = html.escape(entry["alt"], quote=True)
    return f"<figure><img src='data:image/png;base64,{picture}' alt='{alt}'></figure>"
