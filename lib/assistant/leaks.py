"""What a query's embedding alone tells of the API that serves it: a control of what context adds."""

from __future__ import annotations

import numpy as np
import pandas as pd


def api_classifier(vectors: np.ndarray, apis: pd.Series):
    """A logistic regression from a query's embedding to the first API of its plan, fitted.

    Newton's method, in float64 and until it has converged: L-BFGS stops where rounding has it, while the probabilities
    are off by up to 0.03, and takes far longer where labels were dealt anew.

    Args:
        vectors: embeddings of the queries to learn from, (queries, dimensions).
        apis: the first API of each query's gold plan, in the same order.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if len(set(apis)) == 1:  # there is nothing to tell apart
        return DummyClassifier().fit(vectors, np.asarray(apis))
    model = LogisticRegression(C=10.0, solver="newton-cg", tol=1e-6, max_iter=1000)
    return model.fit(np.asarray(vectors, dtype=float), np.asarray(apis))
