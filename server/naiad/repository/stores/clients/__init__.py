"""The clients of the object stores, one file per kind of store; each imports its SDK when it is used first."""
