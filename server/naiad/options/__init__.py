"""The command line: Triton's own options under their own names, and a few of ours."""
