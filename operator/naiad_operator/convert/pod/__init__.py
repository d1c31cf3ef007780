"""The pod of another system's server: its command, flags, devices, models, volumes and the rest, as fields of a predictor. Pure."""
