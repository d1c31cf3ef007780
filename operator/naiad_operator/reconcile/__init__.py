"""From a resource's name to a cluster that is as the resource says: plan it (pure), carry it out, say how it stands."""
