"""As much English grammar as operations' summaries need: verb forms, articles, number, and which words are names."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Verbs that summaries begin with, in the base form.
VERBS = frozenset(
    """
    accept acknowledge activate add adjust allocate analyse analyze announce append apply approve archive assign
    associate attach authorise authorize autocomplete ban block book browse build buy calculate call cancel capture
    change check checkout choose claim classify clean clear clone close collect combine compare complete compress
    compute configure confirm connect consolidate convert copy correct count create crop deactivate debit decline
    decode decompress decrypt define delete deliver deploy describe detach detect determine disable disconnect dismiss
    display distribute divide download draft duplicate edit email enable encode encrypt end enrich enter erase estimate
    evaluate examine exclude execute expand export extend extract fetch fill filter find finish fire flag flatten
    follow format forward generate get give grant group hash hide identify import include index inform initiate insert
    inspect install invite invoice issue join keep label launch leave like link list load lock log look make manage map
    mark mask match merge message modify monitor move mute notify obtain open optimise optimize order overwrite parse
    patch pause pay perform pin place play post predict prefill prepare prevent preview print process produce promote
    protect
    provide provision publish pull purchase purge push
    put query queue quote raise rate react read rebuild recalculate recall
    recognise recognize record redact redeem refresh refund register reject release remind remove rename render renew
    reopen reorder replace reply report request reschedule reserve reset resend resize resolve respond restart restore
    resume retrieve retry return review revoke roll rotate run save scan schedule search select send set share show
    sign skip snooze sort split star start stop store submit subscribe suggest summarise summarize suspend swap switch
    sync synchronise synchronize tag take terminate test text track train transcribe transfer transform translate
    trigger turn tweet unarchive unassign unban unblock undo unfollow unlink unlock unpin unpublish unshare unsubscribe
    unassign untag update upgrade upscale upload upsert use validate verify view void vote watch withdraw wrap write
    """.split()
)
# Of these, the ones that are as often nouns: verbs only where an article, a preposition or the like follows.
NOUNS_TOO = frozenset(
    """
    block book call claim copy draft email file fire flag form format group hash index invoice issue label like link
    log map mark mask message order patch post print process promote purchase quote rate record refund release reply
    report request review rule score text track train transfer trigger tweet vote watch
    """.split()
)
# Third persons and participles that no rule gives.
IRREGULAR_PAST = {
    "arise": "arisen", "become": "become", "begin": "begun", "break": "broken", "build": "built", "buy": "bought",
    "choose": "chosen", "draw": "drawn", "find": "found", "forget": "forgotten", "get": "got", "give": "given",
    "hide": "hidden", "keep": "kept", "leave": "left", "lose": "lost", "make": "made", "pay": "paid", "put": "put",
    "quit": "quit", "read": "read", "reset": "reset", "resend": "resent", "run": "run", "see": "seen", "send": "sent",
    "set": "set", "split": "split", "take": "taken", "undo": "undone", "withdraw": "withdrawn", "write": "written",
}  # fmt: skip
PREPOSITIONS = frozenset(
    """
    about above across after against along among around as at before behind below between by during for from in inside
    into of off on onto out over per since through to toward towards under until up upon using via with within without
    based that which who whose where when if so and or
    """.split()
)
DETERMINERS = frozenset(
    "a an the all any each every some this that these those my your our his her its their one two both no another "
    "several many multiple".split()
)
ARTICLE_AFTER = frozenset("in of from to for on into onto at using between".split())
NO_ARTICLE_BEFORE = (
    DETERMINERS | PREPOSITIONS | {"me", "us", "it", "them", "sign", "others", "everyone", "once", "random"}
)
PRONOUNS = frozenset("i we you he she it they me us them there somebody someone anybody anyone everybody".split())
NOT_PLURAL = frozenset(
    "access address analysis atlas basis bus business campus canvas chaos class diagnosis discuss dns emphasis gas "
    "gps hypothesis is lens mass next ok pass plus pos previous process progress sms status synopsis synthesis "
    "this thus tls success virus vms yes aws ios https css js sas".split()
)
PLURALS = frozenset("people children data criteria men women media feedback news".split())
MASS = frozenset(
    "access advice analytics availability content data email evidence feedback html info information intelligence json "
    "mail media metadata permission progress software support text traffic usage xml membership html5 news".split()
)
FORMATS = frozenset("csv docx gif html ics jpeg jpg json pdf png ppt pptx rtf svg xls xlsx xml zip".split())
PRODUCTS = frozenset("excel facebook github google linkedin microsoft outlook powerpoint sharepoint twitter".split())
CONSONANT_SOUND = re.compile(r"(uni(?!n|m)|us[aeu]|eu|one\b|once|ur[li]\b|uk\b)", re.IGNORECASE)
MIXED_CASE = re.compile(r".*[a-z][A-Z]|.*\d|.*[A-Z]{2}|.*\.\w")


def base_form(word: str) -> str | None:
    """The base form of a known verb in its base form, third person or -ing form; None for any other word."""
    word = word.lower()
    if word in VERBS:
        return word
    for ending, instead in (("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"), ("ying", "ie")):
        if word.endswith(ending) and (found := word[: -len(ending)] + instead) in VERBS:
            return found
    doubled = re.fullmatch(r"(\w+?)(\w)\2ing", word)
    return doubled[1] + doubled[2] if doubled and doubled[1] + doubled[2] in VERBS else None


def verb_of_participle(word: str) -> str | None:
    """The verb whose past participle the word is, where it is known."""
    word = word.lower()
    for verb, participle in IRREGULAR_PAST.items():
        if word == participle and verb in VERBS:
            return verb
    if not word.endswith("ed"):
        return None
    for found in (word[:-2], word[:-1], word[:-3] + "y" if word.endswith("ied") else "", word[:-3]):
        if found in VERBS:
            return found
    return None


def is_participle(word: str) -> bool:
    """Whether a word looks like a past participle."""
    return verb_of_participle(word) is not None or bool(re.fullmatch(r"[a-z]{3,}ed", word.lower()))


def third_person(verb: str) -> str:
    """`creates` of `create`; of two words (`look up`) the first one changes."""
    word, _, rest = verb.partition(" ")
    if word in ("is", "has"):
        return verb
    if re.search(r"(s|x|z|ch|sh|o)$", word):
        word += "es"
    elif re.search(r"[^aeiou]y$", word):
        word = word[:-1] + "ies"
    else:
        word += "s"
    return f"{word} {rest}".strip()


def is_plural(noun: str) -> bool:
    """Whether a noun is in the plural, by its ending."""
    word = noun.lower()
    if word in PLURALS:
        return True
    return word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")) and word not in NOT_PLURAL


def singular(noun: str) -> str:
    """The singular of a noun, by its ending."""
    if not is_plural(noun) or noun.lower() in PLURALS:
        return noun
    if re.search(r"[^aeiou]ies$", noun):
        return noun[:-3] + "y"
    if re.search(r"(ss|x|ch|sh)es$", noun):
        return noun[:-2]
    return noun[:-1]


def plural(noun: str) -> str:
    """The plural of a noun, by its ending."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if re.search(r"[^aeiou]y$", noun) else f"{noun}s"


def article(phrase: str) -> str:
    """`a` or `an`, as the phrase sounds."""
    if CONSONANT_SOUND.match(phrase) or re.match(r"[BCDGJKPQTUVWYZ](?=[A-Z0-9]|$)", phrase):
        return "a"
    upper = re.match(r"[AEFHILMNORSX](?=[A-Z0-9])", phrase)
    return "an" if upper or re.match(r"[aeiou]|hour|honest|heir", phrase, re.IGNORECASE) else "a"


def head(words: Sequence[str]) -> int:
    """The index of a noun phrase's last word before its first preposition; 0 at least."""
    for index, word in enumerate(words):
        if index and word.lower() in PREPOSITIONS:
            return index - 1
    return len(words) - 1


def with_article(phrase: str, definite: bool) -> str:
    """A noun phrase with `the`, or with `a` where it can be counted and is singular; as it is where it has one."""
    words = phrase.split()
    if (
        not words
        or words[0].lower() in DETERMINERS | PREPOSITIONS | PRONOUNS
        or re.match(r"[\d{]", words[0])
        or "'s" in words[0]
    ):
        return phrase
    noun = words[head(words)]
    if definite:
        return phrase if noun.lower() in ("information", "info") else f"the {phrase}"
    return phrase if is_plural(noun) or noun.lower() in MASS else f"{article(phrase)} {phrase}"


def with_inner_articles(phrase: str) -> str:
    """`tasks in folder` as `tasks in the folder`: a bare singular noun after a preposition gets `the`."""
    words = phrase.split()
    said: list[str] = []
    for index, word in enumerate(words):
        said.append(word)
        rest = words[index + 1 :]
        if word.lower() not in ARTICLE_AFTER or not rest or not index:
            continue
        first, noun = rest[0], rest[head(rest)]
        if noun.lower() == "format" and first.isupper():
            continue  # "in JSON format"
        named = (first[:1].isupper() and not (first.isupper() and first != noun)) or first.lower() in NO_ARTICLE_BEFORE
        if named or is_plural(noun) or noun.lower() in MASS or (base_form(first) and word == "to") or "{" in first:
            continue
        if not re.match(r"[\d{]", first) and not first.endswith("ing"):
            said.append(article(" ".join(rest)) if word == "using" else "the")
    return " ".join(said)


def lowered(text: str, names: frozenset[str] = frozenset(), common: frozenset[str] = frozenset()) -> str:
    """A summary without the capitals that only a title has.

    Acronyms, file formats, well-known products, words of mixed case and `names` (in lower case) keep theirs. Of a text
    in sentence case, where most words begin with a small letter, capitals inside mark names and stay, unless the word
    is among the `common` ones.
    """
    words = text.split()
    plain = [word for word in words[1:] if word[:1].isalpha() and word.lower() not in PREPOSITIONS | DETERMINERS]
    titled = sum(word[:1].isupper() for word in plain) > len(plain) / 2
    kept = []
    for index, word in enumerate(words):
        bare = word.strip("'\".,").removesuffix("'s").lower()
        ordinary = bare in common | PREPOSITIONS | DETERMINERS or base_form(bare) or is_participle(bare)
        if bare in FORMATS or bare in PRODUCTS:
            kept.append(word.upper() if bare in FORMATS else word if MIXED_CASE.match(word) else word.capitalize())
            continue
        mixed = MIXED_CASE.match(word) and not re.fullmatch(r"[A-Z]{5,}", word)
        kept.append(word if mixed or bare in names or (index and not titled and not ordinary) else word.lower())
    return " ".join(kept)
