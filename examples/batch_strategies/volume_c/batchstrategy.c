/* A batching strategy in C: at most MAX_BATCH_VOLUME_BYTES (a parameter of the config) of inputs per batch, as ../volume/batchstrategy.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naiad_backend.h"

NAIAD_BATCH_STRATEGY

typedef struct {
  uint64_t most, now;
} volume;

int naiad_strategy_create(const naiad_strategy_info *info, void **strategy, naiad_error *error) {
  static const char key[] = "\"MAX_BATCH_VOLUME_BYTES\": \"";
  const char *found = strstr(info->parameters, key);
  volume *made = found ? calloc(1, sizeof *made) : NULL;
  if (made == NULL) {
    snprintf(error->text, error->capacity, "parameter MAX_BATCH_VOLUME_BYTES is missing in config.pbtxt");
    return NAIAD_INVALID_ARG;
  }
  made->most = strtoull(found + sizeof key - 1, NULL, 10);
  *strategy = made;
  return NAIAD_OK;
}

void naiad_strategy_destroy(void *strategy) {
  free(strategy);
}

int naiad_batch_begin(void *strategy, void **batch, naiad_error *error) {
  (void)error;
  ((volume *)strategy)->now = 0; /* one batch at a time */
  *batch = strategy;
  return NAIAD_OK;
}

int naiad_batch_include(void *strategy, void *batch, const naiad_request *request, int *include, naiad_error *error) {
  volume *of = batch;
  uint64_t size = of->now;
  (void)strategy;
  (void)error;
  for (uint32_t i = 0; i < request->input_count; i++) size += request->inputs[i].byte_size;
  *include = size <= of->most;
  if (*include) of->now = size;
  return NAIAD_OK;
}
