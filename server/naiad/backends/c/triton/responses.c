/* Responses, their outputs and parameters; several to a request where the model is decoupled. States of sequences. */
#include "adapter.h"

/* Where an output goes: the request `index` of a batch, or of a response of a decoupled model. */
typedef struct output output;
struct output { output *next; void *context; uint32_t index, datatype, rank; int64_t *shape; char name[]; };
typedef struct { request *of; void *context; uint32_t index; output *first; } response;
typedef struct { request *of; } factory;

static output *new_output(void *context, uint32_t index, const char *name, uint32_t datatype, const int64_t *shape, uint32_t rank) {
  output *self = made(sizeof *self + strlen(name) + 1);
  self->shape = made((rank + 1) * sizeof *shape);
  self->context = context;
  self->index = index;
  self->datatype = datatype;
  self->rank = rank;
  if (rank) memcpy(self->shape, shape, rank * sizeof *shape);
  strcpy(self->name, name);
  return self;
}
API failure *TRITONBACKEND_ResponseNew(response **into, request *of) {
  if (of->answered) return failed(NAIAD_INTERNAL - 1, "the request has had its last response");
  response *self = made(sizeof *self);
  self->of = of;
  self->context = of->deferred ? host->response(of->deferred) : of->batch->context;
  self->index = of->deferred ? 0 : of->index;
  hold(of);
  *into = self;
  return NULL;
}
API failure *TRITONBACKEND_ResponseDelete(response *self) {
  while (self->first) {
    output *gone = self->first;
    self->first = gone->next;
    free(gone->shape);
    free(gone);
  }
  if (self->of->deferred && self->context) host->send(self->context, NAIAD_RESPONSE_DROP);
  let_go(self->of);
  free(self);
  return NULL;
}
API failure *TRITONBACKEND_ResponseFactoryNew(factory **into, request *of) {
  *into = made(sizeof **into);
  (*into)->of = of;
  hold(of);
  return NULL;
}
API failure *TRITONBACKEND_ResponseFactoryDelete(factory *self) {
  let_go(self->of);
  free(self);
  return NULL;
}
API failure *TRITONBACKEND_ResponseNewFromFactory(response **into, factory *self) { return TRITONBACKEND_ResponseNew(into, self->of); }
API failure *TRITONBACKEND_ResponseFactoryIsCancelled(factory *self, bool *cancelled) {
  request *of = self->of;
  *cancelled = of->deferred ? host->cancelled(of->deferred, 0) : !of->answered && host->cancelled(of->batch->context, of->index);
  return NULL;
}
/* The end of the responses, without one. */
API failure *TRITONBACKEND_ResponseFactorySendFlags(factory *self, uint32_t flags) {
  request *of = self->of;
  if (!(flags & FINAL) || of->answered) return NULL;
  if (!of->deferred) return unsupported("a request without a response, of a model that is not decoupled,");
  of->answered = true;
  host->end(of->deferred);
  return NULL;
}
API failure *TRITONBACKEND_ResponseOutput(response *self, output **into, const char *name, uint32_t datatype, const int64_t *shape, uint32_t rank) {
  output *added = new_output(self->context, self->index, name, datatype, shape, rank);
  added->next = self->first;
  self->first = *into = added;
  return NULL;
}
API failure *TRITONBACKEND_OutputBuffer(output *self, void **buffer, uint64_t size, uint32_t *type, int64_t *id) {
  *buffer = host->output(self->context, self->index, self->name, self->datatype, self->shape, self->rank, size);
  if (type) *type = 0;
  if (id) *id = 0;
  return *buffer ? NULL : failed(NAIAD_INTERNAL - 1, "the output was refused");
}
API failure *TRITONBACKEND_OutputBufferAttributes(output *self, attributes **of) {
  static __thread attributes shown;
  (void)self;
  shown = (attributes){0};
  *of = &shown;
  return NULL;
}
API failure *TRITONBACKEND_ResponseSend(response *self, uint32_t flags, failure *error) {
  request *of = self->of;
  instance *running = of->of;
  if (of->deferred) {
    if (error) host->fail(self->context, self->index, status_of(error), error->text);
    if (flags & FINAL) of->answered = true;
    host->send(self->context, flags & FINAL ? NAIAD_RESPONSE_FINAL : NAIAD_RESPONSE_MORE);
    self->context = NULL;
    return TRITONBACKEND_ResponseDelete(self);
  }
  const bool again = of->answered; /* the batch may have ended */
  if (error && !again) host->fail(self->context, self->index, status_of(error), error->text);
  if (!(flags & FINAL) && !again)
    host->fail(self->context, self->index, NAIAD_UNSUPPORTED, "the library sends several responses to a request, and the config of the model does not say model_transaction_policy { decoupled: true }");
  of->answered = true;
  TRITONBACKEND_ResponseDelete(self);
  if (!again) closed(running);
  return NULL;
}
static failure *set_parameter(response *self, const char *name, const char *value) {
  host->parameter(self->context, self->index, name, value);
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
  if (decoupled) return unsupported("a state of a sequence in a decoupled model");
  *into = new_output(of->batch->context, of->index, name, datatype, shape, rank);
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
