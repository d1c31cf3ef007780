/* Runs a backend that was built for Triton (libtriton_NAME.so) behind naiad_backend.h: it defines the functions of Triton's backend interface
 * that such a library calls, and calls those that the library defines. Compiled on the machine that serves, with its cc, at the first use.
 *
 * One model per process, as every worker process has. Objects are small structs of this file's; the library knows pointers only.
 * What is not here is a symbol that stays undefined, which the server names before it loads the library.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naiad_backend.h"

NAIAD_BACKEND

#define API NAIAD_EXPORT
#define API_MAJOR 1u
#define API_MINOR 19u
#define RELEASE_ALL 1u
#define RELEASE_RESCHEDULE 2u
#define FINAL 1u

typedef struct { int code; char text[]; } failure;
typedef struct { char *text; size_t size; } message;
typedef struct { void *state; } backend;
typedef struct { void *state; } model;
typedef struct { void *state; naiad_instance_info info; char *name; pthread_mutex_t lock; pthread_cond_t ended; uint32_t open; } instance;
typedef struct { instance *of; const naiad_batch *batch; const naiad_request *request; uint32_t index; bool answered; } request;
typedef struct output output;
struct output { request *of; output *next; uint32_t datatype, rank; int64_t *shape; char name[]; };
typedef struct { request *of; output *first; } response;

static const naiad_host *host;
static void *library;
static const char *library_path = "", *backend_name = "";
static char *model_name, *model_dir, *model_config, *options;
static uint64_t model_version;
static backend the_backend;
static model the_model;

static failure *(*initialize)(backend *), *(*finalize)(backend *);
static failure *(*model_initialize)(model *), *(*model_finalize)(model *);
static failure *(*instance_initialize)(instance *), *(*instance_finalize)(instance *);
static failure *(*instance_execute)(instance *, request **, uint32_t);
static failure *(*instance_ready)(instance *);

static failure *failed(int code, const char *text) {
  failure *made = malloc(sizeof *made + strlen(text) + 1);
  if (made == NULL) abort();
  made->code = code;
  strcpy(made->text, text);
  return made;
}

static failure *unsupported(const char *what) {
  char text[256];
  snprintf(text, sizeof text, "%s is not supported by this server", what);
  return failed(NAIAD_UNSUPPORTED - 1, text);
}

/* The header's status of a code of Triton's, which begin with 0 for "unknown". */
static int status_of(const failure *error) {
  return error->code >= 0 && error->code <= 7 ? error->code + 1 : NAIAD_UNKNOWN;
}

static int report(failure *error, naiad_error *into) {
  if (error == NULL) return NAIAD_OK;
  int status = status_of(error);
  snprintf(into->text, into->capacity, "%s", error->text);
  free(error);
  return status;
}

static message *message_of(const char *text, size_t size) {
  message *made = malloc(sizeof *made);
  if (made == NULL || (made->text = malloc(size + 1)) == NULL) abort();
  memcpy(made->text, text, size);
  made->text[size] = 0;
  made->size = size;
  return made;
}

/* Called by the server before naiad_model_load. */
NAIAD_EXPORT void naiad_adapter_use(const char *path, const char *name) {
  library_path = strdup(path);
  backend_name = strdup(name);
}

static bool find(void *into, const char *name, bool required, naiad_error *error) {
  void *found = dlsym(library, name);
  memcpy(into, &found, sizeof found);
  if (found != NULL || !required) return true;
  snprintf(error->text, error->capacity, "%s does not define %s", library_path, name);
  return false;
}

int naiad_model_load(const naiad_host *offered, const naiad_model_info *info, void **state, naiad_error *error) {
  host = offered;
  *state = &the_model;
  model_name = strdup(info->name);
  model_dir = strdup(info->model_dir);
  model_config = strdup(info->config);
  options = strdup(info->options);
  model_version = info->version;
  library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    snprintf(error->text, error->capacity, "%s", dlerror());
    return NAIAD_INVALID_ARG;
  }
  if (!find(&initialize, "TRITONBACKEND_Initialize", false, error) || !find(&finalize, "TRITONBACKEND_Finalize", false, error) ||
      !find(&model_initialize, "TRITONBACKEND_ModelInitialize", false, error) ||
      !find(&model_finalize, "TRITONBACKEND_ModelFinalize", false, error) ||
      !find(&instance_initialize, "TRITONBACKEND_ModelInstanceInitialize", false, error) ||
      !find(&instance_finalize, "TRITONBACKEND_ModelInstanceFinalize", false, error) ||
      !find(&instance_ready, "TRITONBACKEND_ModelInstanceReady", false, error) ||
      !find(&instance_execute, "TRITONBACKEND_ModelInstanceExecute", true, error))
    return NAIAD_INVALID_ARG;
  int status = report(initialize ? initialize(&the_backend) : NULL, error);
  return status ? status : report(model_initialize ? model_initialize(&the_model) : NULL, error);
}

static void ended(failure *error, const char *what) {
  if (error == NULL) return;
  char text[512];
  snprintf(text, sizeof text, "%s failed: %s", what, error->text);
  host->log(NAIAD_LOG_ERROR, text);
  free(error);
}

void naiad_model_unload(void *state) {
  (void)state;
  if (model_finalize) ended(model_finalize(&the_model), "TRITONBACKEND_ModelFinalize");
  if (finalize) ended(finalize(&the_backend), "TRITONBACKEND_Finalize");
}

int naiad_instance_create(void *state, const naiad_instance_info *info, void **into, naiad_error *error) {
  (void)state;
  instance *made = calloc(1, sizeof *made);
  if (made == NULL) return NAIAD_UNAVAILABLE;
  made->info = *info;
  made->name = strdup(info->name);
  made->info.kind = strdup(info->kind);
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->ended, NULL);
  *into = made;
  return report(instance_initialize ? instance_initialize(made) : NULL, error);
}

void naiad_instance_destroy(void *state) {
  if (instance_finalize) ended(instance_finalize(state), "TRITONBACKEND_ModelInstanceFinalize");
}

int naiad_instance_ready(void *state) {
  if (instance_ready == NULL) return 1;
  failure *error = instance_ready(state);
  ended(error, "TRITONBACKEND_ModelInstanceReady");
  return error == NULL;
}

int naiad_execute(void *state, const naiad_batch *batch, naiad_error *error) {
  instance *self = state;
  request *all = calloc(batch->request_count, sizeof *all);
  request **pointers = calloc(batch->request_count, sizeof *pointers);
  if (all == NULL || pointers == NULL) abort();
  for (uint32_t i = 0; i < batch->request_count; i++) {
    all[i] = (request){.of = self, .batch = batch, .request = &batch->requests[i], .index = i};
    pointers[i] = &all[i];
  }
  self->open = 2 * batch->request_count; /* each is answered, and released */
  failure *wrong = instance_execute(self, pointers, batch->request_count);
  if (wrong == NULL) { /* a library may answer from a thread of its own */
    pthread_mutex_lock(&self->lock);
    while (self->open) pthread_cond_wait(&self->ended, &self->lock);
    pthread_mutex_unlock(&self->lock);
  }
  free(all);
  free(pointers);
  return report(wrong, error);
}

static void closed(instance *self) {
  pthread_mutex_lock(&self->lock);
  if (self->open && --self->open == 0) pthread_cond_signal(&self->ended);
  pthread_mutex_unlock(&self->lock);
}

/* ---- errors, messages, names ---- */

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
  *completes = false;
  return NULL;
}
API failure *TRITONBACKEND_ModelSetConfig(model *self, uint32_t version, message *config) {
  (void)self;
  (void)version;
  (void)config;
  return unsupported("a library that completes the config (write input and output in config.pbtxt)");
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

/* ---- requests ---- */

API failure *TRITONBACKEND_RequestId(request *self, const char **id) {
  *id = self->request->id;
  return NULL;
}
API failure *TRITONBACKEND_RequestCorrelationId(request *self, uint64_t *id) {
  char *end;
  *id = strtoull(self->request->correlation_id, &end, 10);
  return *end ? failed(NAIAD_INVALID_ARG - 1, "the correlation id is a string, not a number") : NULL;
}
API failure *TRITONBACKEND_RequestCorrelationIdString(request *self, const char **id) {
  *id = self->request->correlation_id;
  return NULL;
}
API failure *TRITONBACKEND_RequestFlags(request *self, uint32_t *flags) {
  *flags = self->request->flags;
  return NULL;
}
API failure *TRITONBACKEND_RequestIsCancelled(request *self, bool *cancelled) {
  *cancelled = host->cancelled(self->batch->context, self->index) != 0;
  return NULL;
}
API failure *TRITONBACKEND_RequestTrace(request *self, void **trace) {
  (void)self;
  *trace = NULL;
  return NULL;
}
API failure *TRITONSERVER_InferenceTraceReportActivity(void *trace, uint64_t time, const char *name) {
  (void)trace; (void)time; (void)name;
  return NULL;
}
API failure *TRITONBACKEND_RequestInputCount(request *self, uint32_t *count) {
  *count = self->request->input_count;
  return NULL;
}
API failure *TRITONBACKEND_RequestInputName(request *self, uint32_t index, const char **name) {
  if (index >= self->request->input_count) return failed(NAIAD_INVALID_ARG - 1, "there is no input of that index");
  *name = self->request->inputs[index].name;
  return NULL;
}
API failure *TRITONBACKEND_RequestInputByIndex(request *self, uint32_t index, const naiad_tensor **input) {
  if (index >= self->request->input_count) return failed(NAIAD_INVALID_ARG - 1, "there is no input of that index");
  *input = &self->request->inputs[index];
  return NULL;
}
API failure *TRITONBACKEND_RequestInput(request *self, const char *name, const naiad_tensor **input) {
  for (uint32_t i = 0; i < self->request->input_count; i++) {
    *input = &self->request->inputs[i];
    if (strcmp((*input)->name, name) == 0) return NULL;
  }
  char text[512];
  snprintf(text, sizeof text, "there is no input '%s'", name);
  return failed(NAIAD_INVALID_ARG - 1, text);
}
API failure *TRITONBACKEND_RequestOutputCount(request *self, uint32_t *count) {
  *count = self->request->output_count;
  return NULL;
}
API failure *TRITONBACKEND_RequestOutputName(request *self, uint32_t index, const char **name) {
  if (index >= self->request->output_count) return failed(NAIAD_INVALID_ARG - 1, "there is no output of that index");
  *name = self->request->outputs[index];
  return NULL;
}
API failure *TRITONBACKEND_RequestParameterCount(request *self, uint32_t *count) {
  (void)self;
  *count = 0;
  return NULL;
}
API failure *TRITONBACKEND_RequestRelease(request *self, uint32_t flags) {
  if (flags & RELEASE_RESCHEDULE) return unsupported("a request that is seen again");
  closed(self->of);
  return NULL;
}
API failure *TRITONBACKEND_InputProperties(const naiad_tensor *self, const char **name, uint32_t *datatype, const int64_t **shape, uint32_t *rank, uint64_t *size, uint32_t *buffers) {
  if (name) *name = self->name;
  if (datatype) *datatype = self->datatype;
  if (shape) *shape = self->shape;
  if (rank) *rank = self->rank;
  if (size) *size = self->byte_size;
  if (buffers) *buffers = 1;
  return NULL;
}
API failure *TRITONBACKEND_InputPropertiesForHostPolicy(const naiad_tensor *self, const char *policy, const char **name, uint32_t *datatype, const int64_t **shape, uint32_t *rank, uint64_t *size, uint32_t *buffers) {
  (void)policy;
  return TRITONBACKEND_InputProperties(self, name, datatype, shape, rank, size, buffers);
}
API failure *TRITONBACKEND_InputBuffer(const naiad_tensor *self, uint32_t index, const void **buffer, uint64_t *size, uint32_t *type, int64_t *id) {
  if (index) return failed(NAIAD_INVALID_ARG - 1, "an input has one buffer");
  *buffer = self->data;
  *size = self->byte_size;
  *type = 0;
  *id = 0;
  return NULL;
}
API failure *TRITONBACKEND_InputBufferForHostPolicy(const naiad_tensor *self, const char *policy, uint32_t index, const void **buffer, uint64_t *size, uint32_t *type, int64_t *id) {
  (void)policy;
  return TRITONBACKEND_InputBuffer(self, index, buffer, size, type, id);
}

/* ---- responses ---- */

static output *new_output(request *of, const char *name, uint32_t datatype, const int64_t *shape, uint32_t rank) {
  output *made = calloc(1, sizeof *made + strlen(name) + 1);
  if (made == NULL || (made->shape = malloc((rank + 1) * sizeof *shape)) == NULL) abort();
  made->of = of;
  made->datatype = datatype;
  made->rank = rank;
  if (rank) memcpy(made->shape, shape, rank * sizeof *shape);
  strcpy(made->name, name);
  return made;
}
API failure *TRITONBACKEND_ResponseNew(response **into, request *of) {
  *into = calloc(1, sizeof **into);
  if (*into == NULL) abort();
  (*into)->of = of;
  return NULL;
}
API failure *TRITONBACKEND_ResponseDelete(response *self) {
  while (self->first) {
    output *gone = self->first;
    self->first = gone->next;
    free(gone->shape);
    free(gone);
  }
  free(self);
  return NULL;
}
API failure *TRITONBACKEND_ResponseOutput(response *self, output **into, const char *name, uint32_t datatype, const int64_t *shape, uint32_t rank) {
  output *made = new_output(self->of, name, datatype, shape, rank);
  made->next = self->first;
  self->first = *into = made;
  return NULL;
}
API failure *TRITONBACKEND_OutputBuffer(output *self, void **buffer, uint64_t size, uint32_t *type, int64_t *id) {
  *buffer = host->output(self->of->batch->context, self->of->index, self->name, self->datatype, self->shape, self->rank, size);
  if (type) *type = 0;
  if (id) *id = 0;
  return *buffer ? NULL : failed(NAIAD_INTERNAL - 1, "the output was refused");
}
API failure *TRITONBACKEND_ResponseSend(response *self, uint32_t flags, failure *error) {
  request *of = self->of;
  const bool again = of->answered;
  if (error) host->fail(of->batch->context, of->index, status_of(error), error->text);
  if (!(flags & FINAL) || again) {
    host->fail(of->batch->context, of->index, NAIAD_UNSUPPORTED, "the library sends several responses to a request, which this server does not support");
  } else {
    of->answered = true;
    closed(of->of);
  }
  return TRITONBACKEND_ResponseDelete(self);
}
static failure *set_parameter(response *self, const char *name, const char *value) {
  host->parameter(self->of->batch->context, self->of->index, name, value);
  return NULL;
}
API failure *TRITONBACKEND_ResponseSetStringParameter(response *self, const char *name, const char *value) {
  char *text = malloc(6 * strlen(value) + 3), *end = text;
  if (text == NULL) abort();
  *end++ = '"';
  for (const unsigned char *at = (const unsigned char *)value; *at; at++)
    end += sprintf(end, *at < 32 || *at == '"' || *at == '\\' ? "\\u%04x" : "%c", *at);
  strcpy(end, "\"");
  set_parameter(self, name, text);
  free(text);
  return NULL;
}
API failure *TRITONBACKEND_ResponseSetIntParameter(response *self, const char *name, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)value);
  return set_parameter(self, name, text);
}
API failure *TRITONBACKEND_ResponseSetBoolParameter(response *self, const char *name, bool value) {
  return set_parameter(self, name, value ? "true" : "false");
}
API failure *TRITONBACKEND_ResponseSetDoubleParameter(response *self, const char *name, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.17g", value);
  return set_parameter(self, name, text);
}
/* States of sequences are outputs here. */
API failure *TRITONBACKEND_StateNew(output **into, request *of, const char *name, uint32_t datatype, const int64_t *shape, uint32_t rank) {
  *into = new_output(of, name, datatype, shape, rank);
  return NULL;
}
API failure *TRITONBACKEND_StateBuffer(output *self, void **buffer, uint64_t size, uint32_t *type, int64_t *id) {
  return TRITONBACKEND_OutputBuffer(self, buffer, size, type, id);
}
API failure *TRITONBACKEND_StateUpdate(output *self) {
  free(self->shape);
  free(self);
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
