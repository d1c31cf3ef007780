"""Model repositories that are not folders of this machine: object stores, archives, registries and hubs."""
