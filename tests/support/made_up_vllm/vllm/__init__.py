"""See the package around it."""

__version__ = "0.33.0+made.up"
