"""Builders of the autoscaler: HorizontalPodAutoscaler, KEDA's ScaledObject, and the query that starts the first pod."""
