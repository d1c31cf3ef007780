"""Naiad's Kubernetes operator: turns InferenceService resources into serving Deployments."""
