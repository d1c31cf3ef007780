"""How fast Naiad is on a GPU, beside the same frameworks without it: `python -m benchmarks.gpu`."""
