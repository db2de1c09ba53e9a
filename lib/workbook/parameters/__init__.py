"""The parameters of the notebooks: one module a notebook, so that a change reruns that notebook alone."""
