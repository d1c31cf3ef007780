"""What the user may say on the command line: Triton's own options under their own names, and a few of ours."""
