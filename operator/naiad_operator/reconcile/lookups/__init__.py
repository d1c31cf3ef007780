"""What a reconcile asks the cluster for: its kinds, nodes, claims, Events of autoscalers, and the pods' models."""
