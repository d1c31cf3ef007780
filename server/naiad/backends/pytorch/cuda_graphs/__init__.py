"""CUDA graphs of PyTorch models: planned from the config alone, captured at the load, run in the stream of their instance."""
