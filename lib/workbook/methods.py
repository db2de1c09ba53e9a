"""The methods of both papers and ours as a reader meets them: one name, one colour and one marker in all notebooks."""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """What stands for a method on a page. One that no figure draws has no colour and no marker."""

    label: str
    colour: str = ""
    marker: str | tuple = ""


# Colours begin with Okabe and Ito's palette, readable by colour-blind readers; the markers tell the methods apart in
# greyscale.
METHODS = {
    "random": Method("random order", "#999999", "x"),
    "recency": Method("most recent first", "#6b6b6b", "+"),
    "bm25t": Method("BM25T", "#E69F00", "s"),
    "bm25t_per_store": Method("BM25T per store", "#B57A00", "p"),
    "semantic": Method("semantic search", "#0072B2", "o"),
    "cot": Method("CoT", "#56B4E9", "v"),
    "cot_distilled": Method("CoT, distilled", "#2F8FC4", "<"),
    "cot_expert": Method("CoT by the expert (reference)"),
    "finetuned": Method("fine-tuned search", "#009E73", "^"),
    "finetuned_cot": Method("fine-tuned with CoT", "#4DBA97", ">"),
    "finetuned_subset": Method("fine-tuned, CoT's pairs alone", "#7A9E00", "P"),
    "finetuned_unseen_needs": Method("fine-tuned, needs held out", "#00614A", "X"),
    "lambdamart": Method("LambdaMART", "#CC79A7", "D"),
    "rrf_text": Method("RRF of text rankings", "#8C6BB1", "h"),
    "lambdamart_rrf": Method("LambdaMART-RRF", "#D55E00", "*"),
    "lambdamart_2": Method("LambdaMART, two stages (ours)", "#1A1A6E", "$2$"),
    "lambdamart_2_finetuned": Method("two stages + fine-tuned encoder (ours)", "#6A1B4D", (12, 1, 0)),
    "lambdamart_no_usage": Method("LambdaMART without usage", "#999933", "d"),
    "published": Method("published", "#000000", "_"),
    "query_only": Method("query alone", "#4C5A67", "8"),
    "query_plus_semantic_context": Method("query + context by semantic search", "#3E8FD0", (4, 1, 0)),
    "query_plus_context": Method("query + retrieved context", "#C23B00", (5, 1, 0)),
    "oracle_context": Method("query + all relevant context", "#00785A", (3, 0, 180)),
    "query_plus_random_context": Method("query + random context", "#B79A6A", (3, 0, 90)),
    "query_plus_other_context": Method("query + another query's context", "#7F8C4A", (3, 0, 270)),
    "frequency": Method("commonest tools, whatever the query", "#6F4E37", (4, 1, 45)),
    "classifier": Method("classifier of queries", "#B8860B", (5, 0, 0)),
    "lower_bound": Method("no retrieval (lower bound)", "#8A8D91", (4, 0, 0)),
    "rag": Method("retrieved tools (RAG)", "#2A78B5", (3, 0, 0)),
    "context_tuned_rag": Method("retrieved tools and context (context-tuned RAG)", "#D1570A", (5, 0, 36)),
    "upper_bound": Method("the right tool (upper bound)", "#6FB7A3", (6, 0, 0)),
    "context_tuned_upper_bound": Method("the right tool and context (context-tuned upper bound)", "#0B7A5E", (8, 1, 0)),
    "pretrained": Method("pretrained encoder", "#2457A6", (7, 0, 0)),
    "tst": Method("TST", "#C0392B", (7, 1, 0)),
    "tst_shuffled": Method("TST with shuffled targets", "#8D6E63", (4, 1, 20)),
    "oracle_shots": Method("oracle", "#1B7837", (8, 0, 0)),
    "fd": Method("FD", "#7B5EA7", (4, 2, 0)),
    "sfd": Method("SFD", "#C98B00", (5, 2, 0)),
    "sfd_clauses": Method("SFD by clause", "#E3B23C", (5, 2, 45)),
    "fd_sfd": Method("FD + SFD", "#3F7F93", (6, 2, 0)),
    "finetuned_dsl": Method("fine-tuned model", "#00695C", (10, 1, 0)),
    "rrf": Method("RRF of both"),
    "context_tuned_rag_cot": Method("context-tuned RAG with CoT"),
    "pretrained_fd": Method("pretrained encoder + FD"),
    "tst_fd": Method("TST + FD"),
    "tst_sfd": Method("TST + SFD"),
    "tst_fd_sfd": Method("TST + FD + SFD"),
    "unseen_pretrained": Method("unseen APIs: pretrained encoder"),
    "unseen_sfd": Method("unseen APIs: pretrained encoder + SFD"),
    "unseen_new_shot": Method("unseen APIs: an example of each added"),
    "unseen_fd_sfd_new_shot": Method("unseen APIs: an example of each added, FD + SFD"),
    "unseen_finetuned_dsl": Method("unseen APIs: fine-tuned model"),
}


# A method without a style in `METHODS` is drawn like one of these, by its name.
SPARE = (("#B03060", "H"), ("#556B2F", "P"), ("#8B4513", "X"), ("#483D8B", "d"))


def method_of(name: str) -> Method:
    """The entry of a method; what it lacks of a name and a style is made of the method's own name."""
    known = METHODS.get(name, Method(str(name).replace("_", " ")))
    return known if known.colour else Method(known.label, *SPARE[sum(str(name).encode()) % len(SPARE)])


def label(name: str) -> str:
    """A method's name for readers."""
    return method_of(name).label


def colour(name: str) -> str:
    """A method's colour."""
    return method_of(name).colour


def marker(name: str) -> str | tuple:
    """A method's marker, as matplotlib takes it."""
    return method_of(name).marker
