/* Loads the library: naiad_backend.h on one side, the functions that the library defines on the other. */
#include <dlfcn.h>

#include "adapter.h"

NAIAD_BACKEND

const naiad_host *host;
static void *library;
const char *library_path = "", *backend_name = "";
char *model_name, *model_dir, *model_config, *options;
uint64_t model_version;
const char **state_names;
uint32_t state_count;
bool decoupled, completing;
backend the_backend;
model the_model;

static failure *(*initialize)(backend *), *(*finalize)(backend *);
static failure *(*model_initialize)(model *), *(*model_finalize)(model *);
static failure *(*instance_initialize)(instance *), *(*instance_finalize)(instance *);
static failure *(*instance_execute)(instance *, request **, uint32_t);
static failure *(*instance_ready)(instance *);

static int report(failure *error, naiad_error *into) {
  if (error == NULL) return NAIAD_OK;
  int status = status_of(error);
  snprintf(into->text, into->capacity, "%s", error->text);
  free(error);
  return status;
}

/* Called by the server before naiad_model_load. */
NAIAD_EXPORT void naiad_adapter_use(const char *path, const char *name, int is_decoupled, const char *const *states, uint32_t count) {
  library_path = strdup(path);
  backend_name = strdup(name);
  decoupled = is_decoupled != 0;
  state_names = made((count + 1) * sizeof *state_names);
  for (state_count = 0; state_count < count; state_count++) state_names[state_count] = strdup(states[state_count]);
}

static bool find(void *into, const char *name, bool required, naiad_error *error) {
  void *found = dlsym(library, name);
  memcpy(into, &found, sizeof found);
  if (found != NULL || !required) return true;
  snprintf(error->text, error->capacity, "%s does not define %s", library_path, name);
  return false;
}

static int initialized(const naiad_host *offered, const naiad_model_info *info, naiad_error *error) {
  host = offered;
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

int naiad_model_load(const naiad_host *offered, const naiad_model_info *info, void **state, naiad_error *error) {
  *state = &the_model;
  return initialized(offered, info, error);
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

/* The library completes the config while it initializes the model. */
int naiad_model_complete(const naiad_host *offered, const naiad_model_info *info, naiad_error *error) {
  completing = true;
  int status = initialized(offered, info, error);
  if (status == NAIAD_OK) naiad_model_unload(&the_model);
  return status;
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
  const uint32_t count = batch->request_count;
  request **all = made((count + 1) * sizeof *all), **given = made((count + 1) * sizeof *given);
  for (uint32_t i = 0; i < count; i++) {
    given[i] = all[i] = made(sizeof **all);
    *all[i] = (request){.of = self, .batch = batch, .request = &batch->requests[i], .index = i, .holders = 1};
    if (decoupled) all[i]->deferred = host->defer(batch->context, i);
  }
  self->open = decoupled ? count : 2 * count; /* each is released; one with one response is answered, too, before the batch has ended */
  failure *wrong = instance_execute(self, given, count);
  if (wrong == NULL) { /* a library may answer from a thread of its own */
    pthread_mutex_lock(&self->lock);
    while (self->open) pthread_cond_wait(&self->ended, &self->lock);
    pthread_mutex_unlock(&self->lock);
  } else { /* they are the server's again, which fails them */
    for (uint32_t i = 0; i < count; i++) {
      all[i]->answered = true;
      let_go(all[i]);
    }
  }
  free(all);
  free(given);
  return report(wrong, error);
}

void closed(instance *self) {
  pthread_mutex_lock(&self->lock);
  if (self->open && --self->open == 0) pthread_cond_signal(&self->ended);
  pthread_mutex_unlock(&self->lock);
}
