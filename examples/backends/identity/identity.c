/* A backend in C: every output is the input at the same place of the config's lists, OUTPUT0 of INPUT0, OUTPUT1 of INPUT1 and so on.
 *
 * Build it with make, and serve a model whose config says  backend: "identity"  with --backend-directory set to the folder that holds
 * identity/libnaiad_identity.so. A request with the parameter "fail" fails alone, with its text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naiad_backend.h"

NAIAD_BACKEND

typedef struct {
  const naiad_host *host;
  int verbose;
} model_state;

typedef struct {
  model_state *model;
  uint64_t batches;
} instance_state;

int naiad_model_load(const naiad_host *host, const naiad_model_info *info, void **model, naiad_error *error) {
  model_state *state = calloc(1, sizeof *state);
  if (state == NULL) {
    snprintf(error->text, error->capacity, "there is no memory for model %s", info->name);
    return NAIAD_UNAVAILABLE;
  }
  state->host = host;
  state->verbose = strstr(info->config, "\"VERBOSE\"") != NULL; /* a parameter of the config */
  if (state->verbose) {
    char line[256];
    snprintf(line, sizeof line, "version %llu of %s is loaded", (unsigned long long)info->version, info->name);
    host->log(NAIAD_LOG_INFO, line);
  }
  *model = state;
  return NAIAD_OK;
}

void naiad_model_unload(void *model) {
  free(model);
}

int naiad_instance_create(void *model, const naiad_instance_info *info, void **instance, naiad_error *error) {
  instance_state *state = calloc(1, sizeof *state);
  if (state == NULL) {
    snprintf(error->text, error->capacity, "there is no memory for instance %s", info->name);
    return NAIAD_UNAVAILABLE;
  }
  state->model = model;
  *instance = state;
  return NAIAD_OK;
}

void naiad_instance_destroy(void *instance) {
  free(instance);
}

/* The name of the output of an input: INPUT0 has OUTPUT0. 0 if it is no name of that kind. */
static int output_name(const char *input, char *name, size_t size) {
  if (strncmp(input, "INPUT", 5) != 0) return 0;
  return snprintf(name, size, "OUTPUT%s", input + 5) < (int)size;
}

static void answer(const naiad_host *host, const naiad_batch *batch, uint32_t index) {
  const naiad_request *request = &batch->requests[index];
  if (strstr(request->parameters, "\"fail\"") != NULL) {
    host->fail(batch->context, index, NAIAD_INVALID_ARG, "as the request asked for");
    return;
  }
  for (uint32_t i = 0; i < request->input_count; i++) {
    const naiad_tensor *input = &request->inputs[i];
    char name[256];
    if (!output_name(input->name, name, sizeof name)) {
      host->fail(batch->context, index, NAIAD_INVALID_ARG, "inputs must be named INPUT0, INPUT1 and so on");
      return;
    }
    void *output = host->output(batch->context, index, name, input->datatype, input->shape, input->rank, input->byte_size);
    if (output == NULL) return; /* the server has made an error of it for this request */
    memcpy(output, input->data, input->byte_size);
  }
}

int naiad_execute(void *instance, const naiad_batch *batch, naiad_error *error) {
  instance_state *state = instance;
  (void)error; /* for what fails the whole batch */
  state->batches++;
  for (uint32_t i = 0; i < batch->request_count; i++) answer(state->model->host, batch, i);
  return NAIAD_OK;
}
