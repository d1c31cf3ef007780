"""The names of the custom resources."""

GROUP = "serving.naiad.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceService"
PLURAL = "inferenceservices"
SHORT_NAME = "infsvc"
CRD_NAME = f"{PLURAL}.{GROUP}"
OWNER = f"{KIND}.{GROUP}"
"""The kind as an owner of objects is named in the operator: other projects have an InferenceService as well."""

PROFILE_KIND = "NaiadProfile"
PROFILE_PLURAL = "naiadprofiles"

UPGRADE = f"{GROUP}/upgrades"
"""An annotation of a service: what an upgrade of the operator does to it."""
UPGRADE_VALUES = ("Pause", "Skip")
UPGRADE_ORDER = f"{GROUP}/upgrade-order"
"""An annotation of a service: an integer, its place among the services of its namespace; 0 without it."""

FIELD_MANAGER = "naiad-operator"
