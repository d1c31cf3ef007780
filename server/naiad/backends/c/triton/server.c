/* What knows neither models nor requests: errors, messages, names, log, attributes of memory; metrics of the library's own, which go nowhere. */
#include "adapter.h"

void *made(size_t size) {
  void *memory = calloc(1, size);
  if (memory == NULL) abort();
  return memory;
}

failure *failed(int code, const char *text) {
  failure *made = malloc(sizeof *made + strlen(text) + 1);
  if (made == NULL) abort();
  made->code = code;
  strcpy(made->text, text);
  return made;
}

failure *unsupported(const char *what) {
  char text[256];
  snprintf(text, sizeof text, "%s is not supported by this server", what);
  return failed(NAIAD_UNSUPPORTED - 1, text);
}

/* The header's status of a code of Triton's, which begin with 0 for "unknown". */
int status_of(const failure *error) {
  return error->code >= 0 && error->code <= 7 ? error->code + 1 : NAIAD_UNKNOWN;
}

message *message_of(const char *text, size_t size) {
  message *made = malloc(sizeof *made);
  if (made == NULL || (made->text = malloc(size + 1)) == NULL) abort();
  memcpy(made->text, text, size);
  made->text[size] = 0;
  made->size = size;
  return made;
}

API failure *TRITONSERVER_ErrorNew(int code, const char *text) { return failed(code, text ? text : ""); }
API void TRITONSERVER_ErrorDelete(failure *error) { free(error); }
API int TRITONSERVER_ErrorCode(failure *error) { return error->code; }
API const char *TRITONSERVER_ErrorMessage(failure *error) { return error->text; }
API const char *TRITONSERVER_ErrorCodeString(failure *error) {
  static const char *const names[] = {"Unknown", "Internal", "Not found", "Invalid argument", "Unavailable", "Unsupported", "Already exists", "Cancelled"};
  return names[status_of(error) - 1];
}
API failure *TRITONSERVER_MessageNewFromSerializedJson(message **into, const char *text, size_t size) {
  *into = message_of(text, size);
  return NULL;
}
API failure *TRITONSERVER_MessageSerializeToJson(message *self, const char **text, size_t *size) {
  *text = self->text;
  *size = self->size;
  return NULL;
}
API failure *TRITONSERVER_MessageDelete(message *self) {
  free(self->text);
  free(self);
  return NULL;
}
static const char *const datatypes[] = {"<invalid>", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES", "BF16"};
static const uint32_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 2};
API const char *TRITONSERVER_DataTypeString(uint32_t datatype) { return datatypes[datatype < 15 ? datatype : 0]; }
API uint32_t TRITONSERVER_DataTypeByteSize(uint32_t datatype) { return sizes[datatype < 15 ? datatype : 0]; }
API uint32_t TRITONSERVER_StringToDataType(const char *name) {
  for (uint32_t i = 1; i < 15; i++)
    if (strcmp(datatypes[i], name) == 0) return i;
  return 0;
}
API const char *TRITONSERVER_MemoryTypeString(uint32_t type) {
  return type == 0 ? "CPU" : type == 1 ? "CPU_PINNED" : type == 2 ? "GPU" : "<invalid>";
}
API const char *TRITONSERVER_InstanceGroupKindString(uint32_t kind) {
  static const char *const names[] = {"AUTO", "CPU", "GPU", "MODEL"};
  return kind < 4 ? names[kind] : "<invalid>";
}
API bool TRITONSERVER_LogIsEnabled(uint32_t level) { return level != 3; }
API failure *TRITONSERVER_LogMessage(uint32_t level, const char *file, int line, const char *text) {
  static const uint32_t levels[] = {NAIAD_LOG_INFO, NAIAD_LOG_WARNING, NAIAD_LOG_ERROR, NAIAD_LOG_VERBOSE};
  (void)file;
  (void)line;
  if (level != 3) host->log(level < 4 ? levels[level] : NAIAD_LOG_INFO, text);
  return NULL;
}

/* ---- attributes of memory ---- */

API failure *TRITONSERVER_BufferAttributesNew(attributes **into) {
  *into = made(sizeof **into);
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesDelete(attributes *self) {
  free(self);
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesSetMemoryTypeId(attributes *self, int64_t id) {
  self->id = id;
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesSetMemoryType(attributes *self, uint32_t type) {
  self->type = type;
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesSetCudaIpcHandle(attributes *self, void *handle) {
  self->ipc = handle;
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesSetByteSize(attributes *self, size_t size) {
  self->size = size;
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesMemoryTypeId(attributes *self, int64_t *id) {
  *id = self->id;
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesMemoryType(attributes *self, uint32_t *type) {
  *type = self->type;
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesCudaIpcHandle(attributes *self, void **handle) {
  *handle = self->ipc;
  return NULL;
}
API failure *TRITONSERVER_BufferAttributesByteSize(attributes *self, size_t *size) {
  *size = self->size;
  return NULL;
}

/* ---- metrics of the library's own, which go nowhere ---- */

API void *TRITONSERVER_ParameterNew(const char *name, uint32_t type, const void *value) {
  (void)name; (void)type; (void)value;
  return calloc(1, 1);
}
API void TRITONSERVER_ParameterDelete(void *self) { free(self); }
API failure *TRITONSERVER_MetricFamilyNew(void **into, uint32_t kind, const char *name, const char *text) {
  (void)kind; (void)name; (void)text;
  *into = calloc(1, 1);
  return NULL;
}
API failure *TRITONSERVER_MetricFamilyDelete(void *self) {
  free(self);
  return NULL;
}
API failure *TRITONSERVER_MetricNew(void **into, void *family, const void **labels, uint64_t count) {
  (void)family; (void)labels; (void)count;
  *into = calloc(1, 1);
  return NULL;
}
API failure *TRITONSERVER_MetricDelete(void *self) {
  free(self);
  return NULL;
}
API failure *TRITONSERVER_MetricIncrement(void *self, double value) {
  (void)self; (void)value;
  return NULL;
}
API failure *TRITONSERVER_MetricSet(void *self, double value) {
  (void)self; (void)value;
  return NULL;
}
