"""What runs the notebooks and renders their report; nothing below imports it."""

import sys

# With it, jsonschema, which nbformat imports, builds 38 grammars of web addresses: a second in every process.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
