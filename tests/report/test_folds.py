"""What of a page is shown at once, and what stands one click away."""

import pytest
from bs4 import BeautifulSoup

from lib.report.folds import LONG_CAPTION, LONG_FINDING, LONG_TEXT, WORDY_TABLE, count_words, fold, shorten, title_of

FIGURE = "<div class='outputs'><figure><img alt='x'></figure></div>"
FIRST, SECOND = (
    "It finds 76.5 [70.7, 81.4]% of e.g. mails.",
    "The rest of this tells " + "more " * LONG_FINDING + "of it.",
)


def folded(inner):
    soup = BeautifulSoup(f"<main>{inner}</main>", "html.parser")
    fold(soup)
    return soup


def table(*cells, caption="c", name="t"):
    rows = "".join(f"<tr><td>{cell}</td></tr>" for cell in cells)
    return (
        f"<div class='table'><table class='workbook' id='{name}'><caption>{caption}</caption><tbody>{rows}</tbody>"
        "</table></div>"
    )


def said(text):
    return f"<div class='outputs'><p>{text}</p></div>"


def titles(page):
    return [summary.get_text() for summary in page.select("details.more > summary")]


def test_a_section_shows_its_first_table_and_folds_the_others():
    one, two = table("1", caption="First. More", name="a"), table("2", caption="Recall@3 of all. In percent", name="b")
    page = folded(f"<h2>A</h2>{one}{two}<h2>B</h2>{table('1', name='c')}")
    assert titles(page) == ["Table: Recall@3 of all"]
    assert page.find(id="b").find_parent("details")
    assert not page.find(id="c").find_parent("details")


@pytest.mark.parametrize("cells", [["1"] * 25, ["word " * WORDY_TABLE, "and one"]], ids=["rows", "words"])
def test_a_long_table_is_folded_and_the_next_stands_for_it(cells):
    page = folded(f"<h2>B</h2>{table(*cells, caption='Long. More')}{table('2', name='short')}")
    assert titles(page) == ["Table: Long"]
    assert not page.find(id="short").find_parent("details")


@pytest.mark.parametrize(
    ("caption", "title"),
    [
        ("Items as search sees them (text; app). 12 a persona.", "Items as search sees them (text; app)"),
        ("NDCG@K in percent, n = 936; encoder L6-v2. Pairs trained on: 12.", "NDCG@K in percent, n = 936"),
        ("Recall, n = 936. ★: best of its column.", "Recall, n = 936"),
        ("Means over draws (logs permuted: 3.", "Means over draws (logs permuted: 3"),
    ],
)
def test_a_title_is_cut_at_a_sentence_and_not_inside_brackets(caption, title):
    assert title_of(caption) == title


def test_numbers_make_no_table_wordy():
    assert titles(folded(f"<h2>B</h2>{table('12.5 [1.0, 2.0] ' * WORDY_TABLE)}")) == []


@pytest.mark.parametrize("order", [1, -1], ids=["before", "after"])
def test_a_figure_stands_for_the_tables_of_its_section(order):
    parts = [FIGURE, table("1", caption="Drawn. More")]
    page = folded(f"<h2>A</h2>{''.join(parts[::order])}<h2>B</h2>{table('1', name='other')}")
    assert titles(page) == ["Table: Drawn"]


def test_ours_beside_published_stays_open_beside_a_figure():
    beside = table("1", "2").replace("<tbody>", "<thead><tr><th>@3, ours</th><th>@3, paper</th></tr></thead><tbody>")
    later = beside.replace("id='t'", "id='later'")
    page = folded(f"<h2>A</h2>{beside}{later}{FIGURE}")
    assert not page.find(id="t").find_parent("details")
    assert page.find(id="later").find_parent("details")


def test_a_finding_shows_its_first_sentences_and_keeps_every_word():
    page = folded(said(f"{FIRST} <strong>Bold.</strong> {SECOND} A <code>last</code> one."))
    shown, rest = page.select_one(".outputs > p"), page.select_one("details.more > p")
    assert shown.get_text().strip() == FIRST
    assert str(rest).startswith('<p class="rest"><strong>Bold.</strong> The rest')
    assert rest.code.get_text() == "last"
    words = f"{FIRST} Bold. {SECOND} A last one."
    assert (shown.get_text() + rest.get_text()).split() == words.split()


def test_as_many_sentences_are_shown_as_fit():
    page = folded(said(" ".join(["Seven words are in this short sentence."] * 10)))
    assert count_words(page.select_one(".outputs > p")) == LONG_FINDING // 7 * 7


@pytest.mark.parametrize(
    "text",
    [
        " ".join(["word"] * LONG_FINDING),
        f"{'One long sentence has no end ' * 20}.",
        f"{'Nearly all stands in front ' * 10}of it. The rest is short.",
    ],
    ids=["short", "one sentence", "little left"],
)
def test_other_findings_stay_as_they_are(text):
    assert titles(folded(said(text))) == []


def test_words_inside_tables_figures_and_folds_are_left_alone():
    text = f"<p>{FIRST} {SECOND}</p>"
    inner = "".join(f"<{name}>{text}</{name}>" for name in ("figure", "details"))
    assert titles(folded(f"<div class='outputs'>{inner}<table><tr><td>{text}</td></tr></table></div>")) == []


def test_a_caption_shows_its_first_sentence_and_its_link():
    link = "<a class='permalink' href='#t'>#</a>"
    page = folded(table("1", caption=f"Recall in percent. {'How to read it is told at length. ' * 8}{link}"))
    caption = page.caption
    assert titles(page) == ["More"]
    rest = caption.details.extract()
    assert caption.a["href"] == "#t"
    assert not rest.a
    assert count_words(caption) <= LONG_CAPTION


def told(*paragraphs, heading="<h2>A</h2>"):
    said = "".join(f"<p>{text}</p>" for text in paragraphs)
    return f"<div class='cell text'>{heading}{said}<ul><li>a</li></ul></div>"


def test_what_the_notebook_tells_shows_its_first_sentences():
    page = folded(told(f"{FIRST} {SECOND}", "Another paragraph."))
    (more,) = page.select("details.more")
    assert page.select_one(".text > p").get_text().strip() == FIRST
    assert [child.name for child in more.find_all(True, recursive=False)] == ["summary", "p", "p", "ul"]
    assert (page.select_one(".text > p").get_text() + more.p.get_text()).split() == f"{FIRST} {SECOND}".split()


def test_a_question_is_not_cut_but_what_follows_it_is_folded():
    question = f"<strong>Question.</strong> {FIRST} {SECOND}"
    page = folded(told(question, "word " * LONG_TEXT))
    assert page.select_one(".text > p").get_text() == f"Question. {FIRST} {SECOND}"
    assert [child.name for child in page.select("details.more > *")] == ["summary", "p", "ul"]


@pytest.mark.parametrize("paragraphs", [["Short."], ["word " * LONG_TEXT + "and no end.", "Few words more."]])
def test_what_is_told_briefly_stays(paragraphs):
    assert titles(folded(told(*paragraphs))) == []


def test_every_heading_of_a_text_has_its_own_fold():
    text = told(f"{FIRST} {SECOND}").replace("</div>", f"<h3>B</h3><p>{FIRST} {SECOND}</p></div>")
    assert titles(folded(text)) == ["More", "More"]


def test_a_card_shows_its_first_sentences():
    (shown, more) = BeautifulSoup(shorten(f"<p>{FIRST} {SECOND}</p><p>Next.</p>"), "html.parser").find_all(
        ["p", "details"], recursive=False
    )
    assert shown.get_text().strip() == FIRST
    assert more.get_text(" ").split()[-1] == "Next."
    assert shorten(f"<p>{FIRST}</p>") == f"<p>{FIRST}</p>"


def test_what_is_printed_as_it_is_is_folded_where_it_is_long():
    prompt, short = ("\n".join(["a line"] * count) for count in (6, 5))
    page = folded(f"<div class='outputs'><pre>{prompt}</pre></div><div class='outputs'><pre>{short}</pre></div>")
    assert titles(page) == ["Show the text (6 lines)"]
    assert page.details.pre.get_text() == prompt
