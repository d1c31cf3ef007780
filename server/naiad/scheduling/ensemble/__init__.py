"""Ensembles: a model whose inference is a graph of other models' inferences (rows 14.1 to 14.15)."""
