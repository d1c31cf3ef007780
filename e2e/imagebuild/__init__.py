"""The two images, built by buildah without a daemon or a registry: `python -m e2e.imagebuild` (`make images`)."""
