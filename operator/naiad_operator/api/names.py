"""The names of the resource."""

GROUP = "serving.naiad.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceService"
LIST_KIND = "InferenceServiceList"
PLURAL = "inferenceservices"
SINGULAR = "inferenceservice"
SHORT_NAME = "infsvc"
CRD_NAME = f"{PLURAL}.{GROUP}"

FIELD_MANAGER = "naiad-operator"
