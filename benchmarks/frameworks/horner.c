/* A backend in C for the measurement of its calls: OUTPUT0 is a polynomial of degree 64 of each number of INPUT0. */
#include <stddef.h>

#include "naiad_backend.h"

NAIAD_BACKEND

static const naiad_host *host;

void horner(const float *in, float *out, size_t count) {
  for (size_t i = 0; i < count; i++) {
    float sum = 0.0f;
    for (int power = 64; power >= 0; power--) sum = sum * in[i] + 0.01f * (float)power;
    out[i] = sum;
  }
}

int naiad_model_load(const naiad_host *given, const naiad_model_info *info, void **model, naiad_error *error) {
  (void)info, (void)error;
  host = given;
  *model = NULL;
  return NAIAD_OK;
}

void naiad_model_unload(void *model) {
  (void)model;
}

int naiad_instance_create(void *model, const naiad_instance_info *info, void **instance, naiad_error *error) {
  (void)model, (void)info, (void)error;
  *instance = NULL;
  return NAIAD_OK;
}

void naiad_instance_destroy(void *instance) {
  (void)instance;
}

int naiad_execute(void *instance, const naiad_batch *batch, naiad_error *error) {
  (void)instance, (void)error;
  for (uint32_t i = 0; i < batch->request_count; i++) {
    const naiad_tensor *in = &batch->requests[i].inputs[0];
    void *out = host->output(batch->context, i, "OUTPUT0", in->datatype, in->shape, in->rank, in->byte_size);
    if (out != NULL) horner(in->data, out, in->byte_size / sizeof(float));
  }
  return NAIAD_OK;
}
