"""The names of the custom resources."""

GROUP = "serving.naiad.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceService"
PLURAL = "inferenceservices"
SHORT_NAME = "infsvc"
CRD_NAME = f"{PLURAL}.{GROUP}"

PROFILE_KIND = "NaiadProfile"
PROFILE_PLURAL = "naiadprofiles"

FIELD_MANAGER = "naiad-operator"
