"""Running batches: memory, execution contexts, CUDA graphs, and what is copied."""
