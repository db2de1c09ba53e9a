"""What kind of value a parameter or response field of a foreign API holds, from its name, type, format and examples.

Hand-written catalogues say the kind of each; OpenAPI documents say the type alone. A kind decides what values people
name for a parameter, which earlier output may fill it, and how a condition tests it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from lib.workflows.apis import ID, SHARED_IDS, Field
from lib.workflows.english import is_plural, lowered, singular

MOST_LABEL_WORDS = 4
MAKERS_MARK = re.compile(r"(?!cc|hr|pc|pr|tv)[bcdfghjklmnpqrstvwxz]{2}")  # before a maker's own keys: `hs_meeting_body`
ID_WORDS = {"id", "ids", "guid", "uuid", "identifier"}
CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
PLUMBING = re.compile(
    r"(limit|offset|skip|top|page|pages|cursor|after|before|token|secret|password|api ?key|accept|content type|"
    r"user agent|authorization|header|version|format|fields?|sort\w*|order by|select|expand|max \w+|per page|size|"
    r"page size|total|count|record count|next link|etag|odata.*|href|callback.*|notification url|hook.*|webhook.*|"
    r"model|seed|client|timezone|time zone|schema|culture|properties|associations|archived|raw|debug|test|"
    r"start( search| index| at)?|idempotency.*|correlation.*|request|response|body|data|object|type|index|hash|key)"
)  # labels of what programmers set and nobody says
# Kinds by the last words of a name, first match counts. Names are in lower case.
BY_NAME: tuple[tuple[str, str], ...] = (
    (r"(ip|mac|im) address|(first|last|middle|given) name|surname$", "any"),
    (r"(e ?mail|email address|mail address|recipients?|cc|bcc|upn)$", "person_email"),
    (r"(phone|phone number|mobile|telephone|tel number|fax)( number)?$", "phone"),
    (r"(file ?name|document name|attachment name)$", "file_name"),
    (r"(file|document|attachment|image) ?(content|contents|bytes)$", "file_content"),
    (r"(file )?path$", "file_path"),
    (r"(folder|folder name|directory)$", "folder"),
    (r"(company|company name|organi[sz]ation( name)?|employer|vendor|supplier)$", "company"),
    (r"(full|user|display|customer|contact|signer|recipient|owner|sender|person) ?name$", "person_name"),
    (r"(assignee|owner|author|creator|requester|reporter|contact person|manager|employee)$", "person_name"),
    (r"(city|location|place|town)$", "place"),
    (r"(url|uri|link|website|web site|homepage)$", "url"),
    (r"subject( line)?$", "subject"),
    (r"(title|name|headline)$", "title"),
    (r"(text|message|body|description|comments?|notes?|summary|reason|caption|remarks?|prompt|content)$", "text"),
    (r"(query|q|keywords?|search|search (term|text|string|query)|term|phrase)$", "query"),
    (r"(tags?|labels?|categor(y|ies)|keyword)$", "tag"),
    (r"(language|locale|lang)( code)?$", "language"),
    (r"(price|amount|cost|fee|revenue|salary|budget)$", "amount"),
    (r"(team)( name)?$", "team"),
    (r"(channel)( name)?$", "channel"),
    (r"(board|list|project|table|workspace|database|calendar|form|survey|plan|bucket|group|queue|base)( name)?$",
     "container"),
    (r"(filter|expression|formula|jql|order ?by|html|markdown|json|xml|sql)$", "code"),
)  # fmt: skip
MOMENT = re.compile(r"(date|time|day|deadline|timestamp|(created|updated|modified|due|started|completed) (at|on))$")
WRAPPERS = {
    "body",
    "data",
    "item",
    "items",
    "fields",
    "properties",
    "value",
    "values",
    "result",
    "results",
    "payload",
    "request",
    "response",
    "attributes",
    "resource",
    "object",
    "record",
    "records",
}  # keys that say nothing
# What people know by name: an id of one, chosen from a list, is said.
CONTAINERS = {"base", "board", "bucket", "business", "calendar", "category", "channel", "collection", "column",
              "database", "dataset", "form", "folder", "group", "library", "list", "notebook", "organization", "page",
              "plan", "process", "project", "queue", "repository", "section", "site", "space", "sprint", "survey",
              "table", "team", "template", "workspace"}  # fmt: skip
PEOPLE = {"user", "assignee", "owner", "member", "person", "manager", "requester", "reporter", "employee", "author"}
MOST_CHOICES = 15
SAYABLE_VALUE = re.compile(r"[A-Za-z][\w .+-]{0,29}")


def words_of(name: str) -> str:
    """A key's or operation id's words in lower case: `dueDateTime` as `due date time`, `rfc_number` as `rfc number`."""
    return " ".join(CAMEL.findall(name.rpartition("/")[2])).lower()


def label_of(field: Field) -> str:
    """What people call a field, in lower case and without `id`; empty where neither summary nor key gives a short name.

    The key is taken where the summary is a sentence; of a summary that says "a or b", a.
    """
    for text in (field.summary, re.split(r" or |,", field.summary)[0], words_of(field.key)):
        text = re.sub(r"\([^)]*\)|\[[^]]*\]|[*:.?]+$", " ", text).replace("_", " ").replace("/", " ")
        if re.fullmatch(r"\w*[a-z][A-Z]\w*", text.strip()):
            text = " ".join(CAMEL.findall(text))
        words = lowered(" ".join(text.split())).split()
        words = [word for word in words if word.lower() not in {*ID_WORDS, "the", "a", "an", "your", "new", "of the"}]
        words = words[1:] if len(words) > 1 and MAKERS_MARK.fullmatch(words[0]) else words
        if words and len(words) <= MOST_LABEL_WORDS and all(re.fullmatch(r"[A-Za-z][A-Za-z'-]*", w) for w in words):
            return " ".join(word if word.isupper() and len(word) < 5 else word.lower() for word in words)
    return ""


def identified(field: Field, noun: str = "") -> str:
    """What a field identifies, as `envelope`; empty where it is no id. `noun`: what the bare key `id` is of."""
    words = words_of(field.key).split()
    if not words or field.type not in ("string", "integer", "number"):
        return ""
    if words[-1] in ID_WORDS or words[-2:] == ["or", "key"]:
        words = [word for word in words[:-1] if word not in {*ID_WORDS, "or", "object", "hs", "by", "unique", "key"}]
    elif words[-1] == "key" and len(words) == 2 and words[0] not in ("api", "access", "secret", "public", "private"):
        words = words[:-1]
    else:
        return ""
    around = [part for part in field.key.split("/")[:-1] if words_of(part) not in WRAPPERS]
    if words:
        return words[-1]
    parent = words_of(around[-1]) if around else label_of(field).lower()
    return singular(parent.rpartition(" ")[2]) or noun


def id_kind(noun: str) -> str:
    """The kind of an id; a foreign API's users and groups are not those of the directory that all connectors share."""
    name = re.sub(r"[^a-z]", "_", singular(noun).lower()).strip("_") or "record"
    return f"{ID}own_{name}" if f"{ID}{name}" in SHARED_IDS else f"{ID}{name}"


def with_kind(field: Field, noun: str = "") -> Field:
    """The field with its kind. `noun`: what the operation is about, which a bare `id` identifies.

    Kinds that the importer knows stay: `choice` has its values in the document, a `container` is chosen from a list,
    by a name that people know.
    """
    of = identified(field, noun)
    if field.kind == "choice":
        return _as_choice(field)
    if field.kind == "container":
        chosen = of or label_of(field).lower().rpartition(" ")[2]
        if chosen in PEOPLE:
            return replace(field, kind="person_name")
        if chosen in CONTAINERS:
            return replace(field, kind=_by_name(chosen) if chosen in ("team", "channel", "folder") else "container")
    if of:
        return replace(field, kind=id_kind(of), examples=())
    kind = _kind(field)
    return replace(field, kind=kind, examples=_exemplary(field) if kind == "any" else ())


def _exemplary(field: Field) -> tuple:
    """The document's examples of a text that people can say, for a field whose name tells nothing of its values."""
    told = (
        field.type != "string" or PLUMBING.fullmatch(words_of(field.key)) or PLUMBING.fullmatch(label_of(field).lower())
    )
    sayable = [value for value in field.examples if isinstance(value, str) and SAYABLE_VALUE.fullmatch(value)]
    return () if told else tuple(dict.fromkeys(sayable))


def _as_choice(field: Field) -> Field:
    """A choice with the values that people can say; of no kind where there are not two of them."""
    if {str(value).lower() for value in field.examples} <= {"true", "false"}:
        return replace(field, kind="boolean", examples=())
    sayable = [value for value in field.examples if (isinstance(value, int | float) and not isinstance(value, bool))
               or (isinstance(value, str) and SAYABLE_VALUE.fullmatch(value))]  # fmt: skip
    sayable = list(dict.fromkeys(sayable))[:MOST_CHOICES]
    if len(sayable) < 2 or PLUMBING.fullmatch(words_of(field.key)):
        return replace(field, kind="any", examples=())
    return replace(field, examples=tuple(sayable))


def _kind(field: Field) -> str:
    name, label = words_of(field.key), label_of(field).lower()
    if field.type in ("array", "object"):
        return "records" if field.type == "array" else "record"
    if field.type == "boolean":
        return "boolean"
    if PLUMBING.fullmatch(name) or PLUMBING.fullmatch(label):
        return "any"
    if field.format in ("binary", "byte"):
        return "file_content"
    if field.format == "email":
        return "person_email"
    if field.format in ("uri", "url"):
        return "url"
    if field.format in ("date", "date-time"):
        return "date" if field.format == "date" else "datetime"
    if field.type in ("integer", "number"):
        return "count" if field.type == "integer" else "amount" if _by_name(name) == "amount" else "number"
    if field.type != "string" or (is_plural(name.rpartition(" ")[2]) and not _by_name(name)):
        return "any"
    if MOMENT.search(name) or MOMENT.search(label):
        return "datetime" if "time" in f"{name} {label}" or name.endswith(" at") else "date"
    kind = _by_name(name) or _by_name(label)
    return kind if kind and kind != "amount" else "any"  # an amount is a number


def _by_name(name: str) -> str:
    return next((kind for pattern, kind in BY_NAME if re.search(rf"\b{pattern}", name)), "")
