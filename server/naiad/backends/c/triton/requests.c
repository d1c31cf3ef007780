/* Requests and their inputs. */
#include "adapter.h"

void hold(request *self) { __atomic_add_fetch(&self->holders, 1, __ATOMIC_RELAXED); }

/* Nothing can answer a request any more that nothing holds. */
void let_go(request *self) {
  static const char lost[] = "the library dropped the request without its last response";
  if (__atomic_sub_fetch(&self->holders, 1, __ATOMIC_ACQ_REL)) return;
  if (!self->answered && self->deferred) {
    void *last = host->response(self->deferred);
    host->fail(last, 0, NAIAD_INTERNAL, lost);
    host->send(last, NAIAD_RESPONSE_FINAL);
  } else if (!self->answered) {
    host->fail(self->batch->context, self->index, NAIAD_INTERNAL, lost);
    closed(self->of);
  }
  free_parameters(self);
  free(self);
}

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
  *cancelled = self->deferred ? host->cancelled(self->deferred, 0) : host->cancelled(self->batch->context, self->index);
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
static bool is_state(const char *name) {
  for (uint32_t i = 0; i < state_count; i++)
    if (strcmp(state_names[i], name) == 0) return true;
  return false;
}
API failure *TRITONBACKEND_RequestOutputCount(request *self, uint32_t *count) {
  *count = 0;
  for (uint32_t i = 0; i < self->request->output_count; i++) *count += !is_state(self->request->outputs[i]);
  return NULL;
}
API failure *TRITONBACKEND_RequestOutputName(request *self, uint32_t index, const char **name) {
  for (uint32_t i = 0; i < self->request->output_count; i++) {
    *name = self->request->outputs[i];
    if (!is_state(*name) && index-- == 0) return NULL;
  }
  return failed(NAIAD_INVALID_ARG - 1, "there is no output of that index");
}
API failure *TRITONBACKEND_RequestOutputBufferProperties(request *self, const char *name, size_t *size, uint32_t *type, int64_t *id) {
  (void)self; (void)name; (void)size; /* the size is known when there is an output */
  *type = 0;
  *id = 0;
  return NULL;
}
API failure *TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request *self, uint64_t *timeout) {
  *timeout = self->request->timeout_us;
  return NULL;
}
API failure *TRITONBACKEND_RequestRelease(request *self, uint32_t flags) {
  if (flags & RELEASE_RESCHEDULE) return unsupported("a request that is seen again");
  instance *of = self->of;
  let_go(self); /* before the batch may end */
  closed(of);
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

API failure *TRITONBACKEND_InputBufferAttributes(const naiad_tensor *self, uint32_t index, const void **buffer, attributes **of) {
  static __thread attributes shown;
  shown = (attributes){.size = self->byte_size};
  *of = &shown;
  return TRITONBACKEND_InputBuffer(self, index, buffer, &shown.size, &shown.type, &shown.id);
}
