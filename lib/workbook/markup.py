"""The border between text and pages: nothing that comes from data, a model or a file can become live markup."""

from __future__ import annotations

import html
import re

from markdown_it import MarkdownIt

CODE_SPAN = re.compile(r"(?<![\\`])`([^`\n]+)`(?!`)")
EMPHASIS = re.compile(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])")
SPECIAL = re.compile(r"([\\`*_{}\[\]#|~!<>&$])")
# A parser that knows no link, picture or HTML cannot be tricked into one, whatever a text has in it.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).disable(
    ["link", "image", "autolink", "html_inline", "html_block", "reference"]
)


def safe_markdown(text: str) -> str:
    """Markdown as HTML in which no HTML, link or picture is live: emphasis, lists, quotations and code remain."""
    return MARKDOWN.render(readable(text))


def inline_html(text: str) -> str:
    """Text on one line as HTML, escaped; `code` and *emphasis* are set as such."""
    coded = CODE_SPAN.sub(r"<code>\1</code>", html.escape(readable(text)))
    return EMPHASIS.sub(r"<em>\1</em>", coded)


def plain(text: str) -> str:
    """Text from data, a model or a file, to stand in a Markdown sentence as it is, on one line."""
    return SPECIAL.sub(r"\\\1", " ".join(readable(text).split()))


def readable(text: object) -> str:
    """The text with lone surrogates, which cannot be encoded, as U+FFFD."""
    return str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
