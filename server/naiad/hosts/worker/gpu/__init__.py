"""Tensors on a CUDA device that go to other processes, and come from them: in a worker process, by handles of CUDA's inter-process memory."""
