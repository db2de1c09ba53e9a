"""The assistant paper's pages: one module a notebook, from frames to tables and figures."""
