/* The backend, the model and its instances, as the library asks about them. */
#include "adapter.h"

/* ---- the backend and the model ---- */

API failure *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor) {
  *major = API_MAJOR;
  *minor = API_MINOR;
  return NULL;
}
API failure *TRITONBACKEND_BackendName(backend *self, const char **name) {
  (void)self;
  *name = backend_name;
  return NULL;
}
API failure *TRITONBACKEND_BackendConfig(backend *self, message **into) {
  size_t size = strlen(options) + 32;
  char *text = malloc(size);
  (void)self;
  if (text == NULL) abort();
  snprintf(text, size, "{\"cmdline\":%s}", options);
  *into = message_of(text, strlen(text));
  free(text);
  return NULL;
}
API failure *TRITONBACKEND_BackendExecutionPolicy(backend *self, uint32_t *policy) {
  (void)self;
  *policy = 0;
  return NULL;
}
API failure *TRITONBACKEND_BackendSetExecutionPolicy(backend *self, uint32_t policy) {
  (void)self;
  (void)policy;
  return NULL;
}
API failure *TRITONBACKEND_BackendArtifacts(backend *self, uint32_t *kind, const char **location) {
  static char folder[4096];
  (void)self;
  snprintf(folder, sizeof folder, "%s", library_path);
  char *end = strrchr(folder, '/');
  if (end != NULL) *end = 0;
  *kind = 0;
  *location = folder;
  return NULL;
}
API failure *TRITONBACKEND_BackendMemoryManager(backend *self, void **manager) {
  *manager = self;
  return NULL;
}
API failure *TRITONBACKEND_MemoryManagerAllocate(void *manager, void **buffer, uint32_t type, int64_t id, uint64_t size) {
  (void)manager;
  (void)id;
  if (type == 2) return unsupported("memory on a GPU");
  *buffer = malloc(size ? size : 1);
  return *buffer ? NULL : failed(NAIAD_UNAVAILABLE - 1, "there is no memory left");
}
API failure *TRITONBACKEND_MemoryManagerFree(void *manager, void *buffer, uint32_t type, int64_t id) {
  (void)manager;
  (void)type;
  (void)id;
  free(buffer);
  return NULL;
}
API failure *TRITONBACKEND_BackendState(backend *self, void **state) {
  *state = self->state;
  return NULL;
}
API failure *TRITONBACKEND_BackendSetState(backend *self, void *state) {
  self->state = state;
  return NULL;
}
API failure *TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(void *self, bool enabled) {
  (void)self;
  (void)enabled;
  return NULL;
}
API failure *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(void *self, uint32_t kind, uint64_t count, const uint64_t *ids, uint64_t id_count) {
  (void)self;
  (void)kind;
  (void)count;
  (void)ids;
  (void)id_count;
  return NULL;
}
API failure *TRITONBACKEND_ModelName(model *self, const char **name) {
  (void)self;
  *name = model_name;
  return NULL;
}
API failure *TRITONBACKEND_ModelVersion(model *self, uint64_t *version) {
  (void)self;
  *version = model_version;
  return NULL;
}
API failure *TRITONBACKEND_ModelRepository(model *self, uint32_t *kind, const char **location) {
  (void)self;
  *kind = 0;
  *location = model_dir;
  return NULL;
}
API failure *TRITONBACKEND_ModelConfig(model *self, uint32_t version, message **into) {
  (void)self;
  (void)version;
  *into = message_of(model_config, strlen(model_config));
  return NULL;
}
API failure *TRITONBACKEND_ModelAutoCompleteConfig(model *self, bool *completes) {
  (void)self;
  *completes = completing;
  return NULL;
}
API failure *TRITONBACKEND_ModelSetConfig(model *self, uint32_t version, message *config) {
  (void)self;
  (void)version;
  if (!completing) return unsupported("a config that is changed when it has been completed");
  host->complete(config->text);
  free(model_config);
  model_config = strdup(config->text);
  return NULL;
}
API failure *TRITONBACKEND_ModelReportMemoryUsage(model *self, attributes **usage, uint32_t count) {
  (void)self;
  (void)usage;
  (void)count;
  return NULL;
}
API failure *TRITONBACKEND_ModelServer(model *self, void **server) {
  *server = self;
  return NULL;
}
API failure *TRITONBACKEND_ModelBackend(model *self, backend **into) {
  (void)self;
  *into = &the_backend;
  return NULL;
}
API failure *TRITONBACKEND_ModelState(model *self, void **state) {
  *state = self->state;
  return NULL;
}
API failure *TRITONBACKEND_ModelSetState(model *self, void *state) {
  self->state = state;
  return NULL;
}

/* ---- instances ---- */

API failure *TRITONBACKEND_ModelInstanceName(instance *self, const char **name) {
  *name = self->name;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceKind(instance *self, uint32_t *kind) {
  *kind = strcmp(self->info.kind, "GPU") == 0 ? 2 : strcmp(self->info.kind, "MODEL") == 0 ? 3 : 1;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceDeviceId(instance *self, int32_t *id) {
  *id = self->info.device_id;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceHostPolicy(instance *self, message **policy) {
  char text[64];
  if (strcmp(self->info.kind, "GPU") == 0)
    snprintf(text, sizeof text, "{\"gpu_%d\":{}}", (int)self->info.device_id);
  else
    snprintf(text, sizeof text, strcmp(self->info.kind, "MODEL") == 0 ? "{\"model\":{}}" : "{\"cpu\":{}}");
  *policy = message_of(text, strlen(text));
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceIsPassive(instance *self, bool *passive) {
  (void)self;
  *passive = false;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceProfileCount(instance *self, uint32_t *count) {
  (void)self;
  *count = 0;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceProfileName(instance *self, uint32_t index, const char **name) {
  (void)self;
  (void)index;
  (void)name;
  return failed(NAIAD_INVALID_ARG - 1, "there is no profile of that index");
}
API failure *TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(instance *self, uint32_t index, const char **kind, int64_t *id) {
  (void)self;
  (void)index;
  (void)kind;
  (void)id;
  return failed(NAIAD_INVALID_ARG - 1, "there is no secondary device of that index");
}
API failure *TRITONBACKEND_ModelInstanceReportMemoryUsage(instance *self, attributes **usage, uint32_t count) {
  (void)self;
  (void)usage;
  (void)count;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceSecondaryDeviceCount(instance *self, uint32_t *count) {
  (void)self;
  *count = 0;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceModel(instance *self, model **into) {
  (void)self;
  *into = &the_model;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceState(instance *self, void **state) {
  *state = self->state;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceSetState(instance *self, void *state) {
  self->state = state;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceReportStatistics(instance *self, request *of, bool success, uint64_t begun, uint64_t computing, uint64_t computed, uint64_t end) {
  (void)self; (void)of; (void)success; (void)begun; (void)computing; (void)computed; (void)end; /* the server counts by itself */
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceReportBatchStatistics(instance *self, uint64_t rows, uint64_t begun, uint64_t computing, uint64_t computed, uint64_t end) {
  (void)self; (void)rows; (void)begun; (void)computing; (void)computed; (void)end;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceResponseStatisticsNew(void **into) {
  *into = made(1);
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(void *self) {
  free(self);
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(void *self, void *of) {
  (void)self; (void)of;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(void *self, void *of) {
  (void)self; (void)of;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(void *self, uint64_t time) {
  (void)self; (void)time;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(void *self, uint64_t time) {
  (void)self; (void)time;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(void *self, uint64_t time) {
  (void)self; (void)time;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceResponseStatisticsSetError(void *self, failure *error) {
  (void)self; (void)error;
  return NULL;
}
API failure *TRITONBACKEND_ModelInstanceReportResponseStatistics(void *self) {
  (void)self;
  return NULL;
}
