/* What the parts of the adapter share: it runs a backend that was built for Triton (libtriton_NAME.so) behind naiad_backend.h. It defines the functions of Triton's
 * backend interface that such a library calls, and calls those that the library defines. Compiled on the machine that serves, with its cc, at the first use.
 *
 *     library.c      loads the library; naiad_backend.h on one side, the functions that the library defines on the other
 *     server.c       errors, messages, names, log, memory, metrics: what knows neither models nor requests
 *     model.c        the backend, the model, its instances
 *     requests.c     requests and their inputs
 *     parameters.c   the parameters of requests
 *     responses.c    responses, also of decoupled models, and states
 *
 * One model per process, as every worker process has. Objects are small structs of these files; the library knows pointers only.
 * What is not here is a symbol that stays undefined, which the server names before it loads the library.
 */
#ifndef NAIAD_TRITON_ADAPTER_H
#define NAIAD_TRITON_ADAPTER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naiad_backend.h"

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
typedef struct { uint32_t type; int64_t id; size_t size; void *ipc; } attributes;
typedef struct parameter parameter;

/* A request. The library has it until it releases it; factories and responses hold it as well, until they are deleted. Of what the batch has (`batch`, `request`)
 * nothing is used after the release. `deferred` is the server's handle where the model is decoupled. */
typedef struct {
  instance *of;
  const naiad_batch *batch;
  const naiad_request *request;
  parameter *parameters;
  void *deferred;
  uint32_t index, holders, parameter_count;
  bool answered;
} request;

/* What the process serves; written by library.c before the library is called. */
extern const naiad_host *host;
extern const char *library_path, *backend_name;
extern char *model_name, *model_dir, *model_config, *options;
extern uint64_t model_version;
extern const char **state_names; /* outputs that are states of sequences, which a library gives by StateNew */
extern uint32_t state_count;
extern bool decoupled, completing;
extern backend the_backend;
extern model the_model;

/* server.c */
failure *failed(int code, const char *text);
failure *unsupported(const char *what);
int status_of(const failure *error);
message *message_of(const char *text, size_t size);
void *made(size_t size);

/* library.c: a request of an instance's batch was answered, or released */
void closed(instance *self);

/* requests.c */
void hold(request *self);
void let_go(request *self);

/* parameters.c */
void read_parameters(request *self);
void free_parameters(request *self);

#endif
