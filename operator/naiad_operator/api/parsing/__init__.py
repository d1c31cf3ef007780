"""From a manifest to a typed resource: all of its errors, or its fields with defaults and those of its profile."""
