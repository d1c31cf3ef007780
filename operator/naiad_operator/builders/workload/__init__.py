"""Builders of a service's pods and of what keeps them: Deployment, pod template, device request, volumes, disruption budget."""
