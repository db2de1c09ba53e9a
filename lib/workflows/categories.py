"""What an app is for, told by its OpenAPI document: which apps a flow joins depends on it."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Words of titles, tags, declared categories and descriptions, by the category that they speak for.
WORDS: dict[str, str] = {
    "mail": "mail|email|e-mail|inbox|mailbox|smtp|outlook|gmail",
    "chat": "chat|message|messages|messaging|sms|messenger|bot|channel|conversation|communication|telegram|slack",
    "calendar": "calendar|appointment|appointments|booking|bookings|scheduling|scheduled|meeting|meetings",
    "tasks": "task|tasks|to-do|todo|project management|work management|kanban|agile|plans|planner|issue|issues",
    "files": "file|files|storage|folder|folders|drive|blob",
    "documents": "document|documents|pdf|docx|word|page|pages|note|notes|notebook|template|templates",
    "forms": "form|forms|survey|surveys|questionnaire|quiz",
    "data": "data|database|table|tables|record|records|row|rows|spreadsheet|sql|query|registry|warehouse",
    "crm": "crm|customer|customers|lead|leads|deal|deals|sales|contact|contacts",
    "support": "ticket|tickets|support|helpdesk|service desk|incident|incidents|service manager|contact center",
    "development": "developer|repository|git|build|deployment|release|devops|software development|code|pipeline",
    "social": "social|post|posts|tweet|followers|community",
    "marketing": "marketing|campaign|campaigns|newsletter|audience|advertising",
    "shop": "shop|store|order|orders|product|products|cart|e-commerce|ecommerce|inventory|pet",
    "finance": "invoice|invoices|payment|payments|accounting|bank|finance|billing|currency|tax",
    "people": "employee|employees|human resources|hr|people|profile|profiles|users|staff|recruiting",
    "approvals": "approval|approvals|governance|provisioning",
    "signing": "sign|signing|signature|signatures|envelope|envelopes|agreement|agreements|esign",
    "analytics": "analytics|report|reports|dashboard|metrics|statistics|business intelligence",
    "security": "security|threat|malware|hash|hashing|encryption|secret|identity|vulnerability",
    "ai": "ai|artificial intelligence|language model|sentiment|machine learning|recognition|cognitive|generation|gpt",
    "media": "image|images|video|videos|photo|music|gif|gifs|audio|icon|favicon|lifestyle and entertainment",
    "devices": "device|devices|sensor|iot|printer|thermostat",
    "places": "map|maps|location|locations|weather|geocoding|route|restaurant|restaurants|business|businesses|city",
    "events": "event|events|ticketing|attendee|attendees|webinar|conference",
    "web": "web|url|link|links|website|rss|feed|http|domain|domains",
}
IN_TITLE, DECLARED, IN_TAG, IN_DESCRIPTION = 5.0, 2.0, 2.0, 1.0


def category_of(title: str, declared: str, tags: Iterable[str], description: str) -> str:
    """The category whose words a document has most, each kind of text with a weight; empty where it has none.

    Args:
        title, description: of the document.
        declared: what its maker says that it is (`x-ms-connector-metadata`).
        tags: of its operations.
    """
    texts = ((title, IN_TITLE), (declared, DECLARED), (" ".join(tags), IN_TAG), (description, IN_DESCRIPTION))
    weights = {
        category: sum(weight * len(set(re.findall(rf"\b(?:{words})\b", text.lower()))) for text, weight in texts)
        for category, words in WORDS.items()
    }
    best = max(weights, key=weights.__getitem__)
    return best if weights[best] else ""
