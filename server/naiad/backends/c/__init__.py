"""Backends written in C and C++: shared libraries for `naiad_backend.h`, which lies in this folder and is loaded in worker processes only."""
