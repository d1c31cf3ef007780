"""Tests that need a framework which is not in the tests' own environment: `make test-frameworks` has one with all of them.

Each folder is a run of its own: one process cannot hold both TensorFlow and what torch.export imports (each brings LLVM, which ends the process).
"""
