"""Naiad on a real Kubernetes: a cluster of two nodes on this machine (`cluster/`), and the stories that are tested on it."""
