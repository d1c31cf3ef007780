"""What an upgrade of the operator does to running services: what is recorded on each Deployment, and when pods get a new template.

Pure but for `scheduler.UpgradeScheduler`, which holds what the reconciles of all services have observed.
"""
