"""The border between text and pages: nothing that comes from data, a model or a file can become live markup."""

from __future__ import annotations

import html
import re

CODE_SPAN = re.compile(r"(?<![\\`])`([^`\n]+)`(?!`)")
QUOTED = re.compile(r"^&gt;(?= |$)", re.MULTILINE)  # begins a line of a quotation
EMPHASIS = re.compile(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])")
SPECIAL = re.compile(r"([\\`*_{}\[\]#|~!])")


def safe_markdown(text: str) -> str:
    """Markdown in which no HTML, no link and no picture is live: emphasis, lists, quotations and code remain.

    Lone surrogates, which no page can hold, become U+FFFD.
    """
    text = readable(text)
    # A code span with HTML in it is written as HTML: Markdown would escape its entities once more.
    spans = iter(CODE_SPAN.findall(text))
    parts = [_escape(part) for part in CODE_SPAN.sub("\0", text.replace("\0", "")).split("\0")]
    joined = parts[0]
    for part in parts[1:]:
        code = next(spans)
        joined += (f"<code>{html.escape(code)}</code>" if re.search("[<>&]", code) else f"`{code}`") + part
    return QUOTED.sub(">", joined)


def _escape(text: str) -> str:
    escaped = html.escape(text, quote=False)
    return escaped.replace("](", "]&#40;").replace("]:", "]&#58;").replace("://", "&#58;//")


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
