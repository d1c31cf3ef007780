"""A Kubernetes cluster of two nodes on one Debian machine, in namespaces of its own: nothing of it is visible outside, and nothing is left of it.

`python -m e2e.cluster up` starts it, `… down` ends it, `… kubectl …` and `… run COMMAND …` use it.
"""
