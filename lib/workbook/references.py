"""What the `$ref` of JSON documents stand for: of OpenAPI documents, and of the schemas of tools."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote


class References:
    """Follows the references of one document: `#/a/0/b`, `#anchor`, `file#/a`, or the `$id` of a schema.

    A pointer into `$defs` or `definitions` that leads nowhere means the first definition of that name in the document,
    as in schemas that were pasted whole. `read` gives the content of another file, or None.

    >>> References({"$defs": {"A": {"type": "string"}}}).resolve({"$ref": "#/$defs/A", "title": "B"})
    {'type': 'string', 'title': 'B'}
    """

    def __init__(self, document: Any, read: Callable[[str], Any] = lambda name: None):
        self.document, self.read = document, read
        self.lost: dict[str, None] = {}  # references that lead nowhere or in a circle, in order
        # By id of a node: the documents keep them all, so an id is one node's.
        self._resolved: dict[int, Any] = {}
        self._named: dict[int, dict[str, Any]] = {}

    def resolve(self, node: Any) -> Any:
        """The node, or what its reference, or a chain of them, stands for; {} where it leads nowhere or in a circle.

        Plain values beside a reference, such as a description, count more than those of what it stands for; lists and
        mappings beside it are added where that has none.
        """
        if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
            return node
        if id(node) not in self._resolved:
            self._resolved[id(node)] = None  # what a circle finds
            target = self.resolve(self._target(node["$ref"]))
            if target is None:
                self.lost[node["$ref"]] = None
                target = {}
            beside = {key: value for key, value in node.items() if key != "$ref"}
            if isinstance(target, dict) and "properties" in beside and "properties" in target:
                target = beside | {"allOf": [target]}  # a schema that extends another
            elif isinstance(target, dict) and beside:
                target = target | {key: value for key, value in beside.items()
                                   if key not in target or not isinstance(value, dict | list)}  # fmt: skip
            self._resolved[id(node)] = target
        return self._resolved[id(node)]

    def _target(self, reference: str) -> Any:
        name, _, pointer = reference.partition("#")
        anchor, *path = [unquote(part).replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
        root = self.document
        if name and (root := self.read(name)) is None:
            root = self._names(self.document).get(name)
        if anchor:
            return _at(self._names(root).get(anchor), path)
        found = _at(root, path)
        if found is None and path[:1] in (["$defs"], ["definitions"]):
            found = _at(self._names(root), path[1:])
        return found

    def _names(self, root: Any) -> dict[str, Any]:
        """Schemas of a document by anchor, `$id` and name."""
        if id(root) not in self._named:
            names = self._named[id(root)] = {}
            waiting = [root]
            for node in waiting:
                waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
                told = [(node.get(key), node) for key in ("$id", "$anchor")] if isinstance(node, dict) else []
                for kind in ("$defs", "definitions"):
                    inside = node.get(kind) if isinstance(node, dict) else None
                    told += inside.items() if isinstance(inside, dict) else []
                names |= {name: one for name, one in told if isinstance(name, str) and name not in names}
        return self._named[id(root)]


def _at(node: Any, path: list[str]) -> Any:
    """What stands at the end of a path through mappings and lists; None where it ends before."""
    for name in path:
        if isinstance(node, list):
            place = int(name) if re.fullmatch("[0-9]{1,9}", name) else len(node)
            node = node[place] if place < len(node) else None
        else:
            node = node.get(name) if isinstance(node, dict) else None
    return node
