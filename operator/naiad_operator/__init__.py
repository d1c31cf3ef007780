"""Naiad's Kubernetes operator: turns InferenceService resources into serving Deployments."""

__version__ = "0.2.0"
