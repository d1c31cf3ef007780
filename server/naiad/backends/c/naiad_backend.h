/* naiad_backend.h: what a backend written in C or C++ implements, and what the server offers to it.
 *
 * A backend is a shared library libnaiad_NAME.so. The server looks for it in the folder of the version, then in that of the model, then in
 * NAME/ of --backend-directory, and loads it in worker processes only, one per device of a model: a crash ends that process, which is started
 * again, and nothing else. docs/c-backends.md is the guide, examples/backends/identity a whole backend.
 *
 * The library defines, with C linkage:
 *
 *     NAIAD_BACKEND                the version of this header, once per library
 *     naiad_model_load             a model version is loaded               naiad_model_unload        it is unloaded
 *     naiad_instance_create        an instance of it is made               naiad_instance_destroy    it is closed
 *     naiad_execute                a batch runs
 *     naiad_instance_ready         (optional) whether an instance could run a batch now
 *     naiad_model_complete         (optional) fills in what the config leaves out
 *
 * Memory. Every pointer that a function of the library is given is valid until that function returns, but for naiad_host, which is valid as
 * long as the process; nothing of it is the library's to free or to write to, but for the memory that `output` returns and the text of an
 * error. The server keeps no pointer of the library's but `model` and `instance`, and copies every text before the call returns.
 *
 * Threads. The instances of a model on one device share a process and `model`; each runs in a thread of its own, one batch at a time. Functions
 * of naiad_host may be called from any thread; those with a batch only until naiad_execute has returned for it, those with a deferred request until its
 * last response. A later call is refused.
 *
 * No C++ exception may leave a function of the library: it would end the process.
 */
#ifndef NAIAD_BACKEND_H
#define NAIAD_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#define NAIAD_BACKEND_ABI 1u

#ifdef __cplusplus
#define NAIAD_C extern "C"
#else
#define NAIAD_C
#endif

#define NAIAD_EXPORT NAIAD_C __attribute__((visibility("default")))

/* Once, in one source file of the library: it is read from the file before the library is loaded. A library of another version is refused. */
#ifdef __cplusplus
#define NAIAD_BACKEND \
  extern "C" __attribute__((visibility("default"))) const uint32_t naiad_backend_abi; \
  const uint32_t naiad_backend_abi = NAIAD_BACKEND_ABI;
#else
#define NAIAD_BACKEND __attribute__((visibility("default"), used)) const uint32_t naiad_backend_abi = NAIAD_BACKEND_ABI;
#endif

/* What functions return: NAIAD_OK, or why they failed. */
enum {
  NAIAD_OK = 0,
  NAIAD_UNKNOWN = 1,
  NAIAD_INTERNAL = 2,
  NAIAD_NOT_FOUND = 3,
  NAIAD_INVALID_ARG = 4,
  NAIAD_UNAVAILABLE = 5,
  NAIAD_UNSUPPORTED = 6,
  NAIAD_ALREADY_EXISTS = 7,
  NAIAD_CANCELLED = 8
};

/* Datatypes; the numbers are those of Triton's TRITONSERVER_DataType. */
enum {
  NAIAD_BOOL = 1,
  NAIAD_UINT8 = 2,
  NAIAD_UINT16 = 3,
  NAIAD_UINT32 = 4,
  NAIAD_UINT64 = 5,
  NAIAD_INT8 = 6,
  NAIAD_INT16 = 7,
  NAIAD_INT32 = 8,
  NAIAD_INT64 = 9,
  NAIAD_FP16 = 10,
  NAIAD_FP32 = 11,
  NAIAD_FP64 = 12,
  NAIAD_BYTES = 13, /* every element: its length in 4 bytes, little-endian, then so many bytes */
  NAIAD_BF16 = 14
};

enum { NAIAD_LOG_ERROR = 1, NAIAD_LOG_WARNING = 2, NAIAD_LOG_INFO = 3, NAIAD_LOG_VERBOSE = 4 };

enum { NAIAD_SEQUENCE_START = 1, NAIAD_SEQUENCE_END = 2 };

/* How a response of a deferred request is sent: more will follow, it is the last, or it is not sent at all. */
enum { NAIAD_RESPONSE_MORE = 0, NAIAD_RESPONSE_FINAL = 1, NAIAD_RESPONSE_DROP = 2 };

/* Where a function that fails says why: UTF-8, at most `capacity` bytes with the 0 at its end. snprintf(error->text, error->capacity, ...). */
typedef struct naiad_error {
  char *text;
  uint64_t capacity;
} naiad_error;

/* An input in the host's memory: contiguous, in C order, at an address that fits its datatype. Never to be written to. */
typedef struct naiad_tensor {
  const char *name;
  const int64_t *shape; /* with the batch dimension, if max_batch_size is not 0 */
  const void *data;
  uint64_t byte_size;
  uint32_t datatype;
  uint32_t rank;
} naiad_tensor;

/* A request; its inputs are those of the config, in the order in which the client sent them, without optional ones that it left out. */
typedef struct naiad_request {
  const char *id;             /* "" for none */
  const char *parameters;     /* a JSON object; "{}" for none */
  const char *correlation_id; /* "" or "0" for none */
  const naiad_tensor *inputs;
  const char *const *outputs; /* the names of those that the client wants: all of them, if it names none */
  uint64_t timeout_us;        /* 0 for none */
  uint32_t input_count;
  uint32_t output_count;
  uint32_t batch_size;        /* rows; 1 where max_batch_size is 0 */
  uint32_t flags;             /* NAIAD_SEQUENCE_… */
} naiad_request;

typedef struct naiad_batch {
  void *context; /* for the functions of naiad_host */
  const naiad_request *requests;
  uint32_t request_count;
  uint32_t reserved;
} naiad_batch;

typedef struct naiad_model_info {
  const char *name;
  const char *config;      /* the completed config, JSON as GET /v2/models/NAME/config shows it */
  const char *model_dir;   /* the model's folder */
  const char *version_dir; /* the version's folder */
  const char *backend_dir; /* the folder of the library */
  const char *options;     /* --backend-config=NAME,KEY=VALUE, a JSON object of texts */
  uint64_t version;
} naiad_model_info;

typedef struct naiad_instance_info {
  const char *name;
  const char *kind; /* "CPU", "GPU" or "MODEL" */
  int32_t device_id; /* of the devices that this process sees */
  uint32_t reserved;
} naiad_instance_info;

/* What the server offers. */
typedef struct naiad_host {
  uint32_t abi;
  uint32_t reserved;

  /* Write a line to the server's log, under the name of the model. */
  void (*log)(uint32_t level, const char *text);

  /* Memory for an output of one request of a batch, to be filled before naiad_execute returns. NULL if there is none, or something of it is
   * wrong (name, datatype, rank, shape, size, a second time): then the server has made an error of it for that request, and the library goes
   * on with the next one. `byte_size` is that of the shape and datatype, for NAIAD_BYTES whatever the elements take. Each request that has not
   * failed needs each output that it wants; one that it does not want may be left out, or is dropped. */
  void *(*output)(void *context, uint32_t request, const char *name, uint32_t datatype, const int64_t *shape, uint32_t rank, uint64_t byte_size);

  /* This request fails, alone, with this status and text; its outputs are dropped. */
  void (*fail)(void *context, uint32_t request, int status, const char *text);

  /* Optional: a parameter of the response to a request; `value` is JSON: a finite number, true, false, or a text in quotes. */
  void (*parameter)(void *context, uint32_t request, const char *name, const char *value);

  /* 1 if the client of a request has gone. Its outputs may be left out then. */
  int (*cancelled)(void *context, uint32_t request);

  /* Optional: when computing began and ended, for the statistics; CLOCK_MONOTONIC in nanoseconds. By default all of naiad_execute. */
  void (*times)(void *context, int64_t begun_ns, int64_t ended_ns);

  /* Optional: responses that come after their batch, from any thread, or several to a request of a decoupled model; one that is not decoupled gets exactly
   * one. `defer` takes a request out of its batch, which naiad_execute may then leave; NULL if there is no such request, or it was taken out before. What the
   * batch has of it (inputs, names) is valid until naiad_execute returns all the same. `response` begins a response: its context is that of a batch of this
   * one request, number 0, for `output`, `fail` and `parameter`, until `send`. `end` says that no response will follow, without one. After the last response
   * the request is not to be named again; `cancelled(deferred, 0)` says whether its client has gone. `send` may wait while the client reads more slowly.
   * If naiad_execute fails, its deferred requests fail as well. A response that was begun and not sent ends with the last response of its request, and the
   * memory of its outputs with it; of a request at most 1024 are begun at a time, and with one more it fails. */
  void *(*defer)(void *context, uint32_t request);
  void *(*response)(void *deferred);
  void (*send)(void *response, uint32_t how);
  void (*end)(void *deferred);

  /* In naiad_model_complete only: the config as it shall be, JSON as it was given. What may change are inputs, outputs, max_batch_size, dynamic batching (where the
   * config has no scheduler) and the transaction policy; the rest is left out. */
  void (*complete)(const char *config);
} naiad_host;

/* A model version is loaded: called once per process. `*model` is whatever the library wants to be given back. */
NAIAD_EXPORT int naiad_model_load(const naiad_host *host, const naiad_model_info *info, void **model, naiad_error *error);

/* Optional: fill in what the config leaves out, by host->complete. Called in a process of its own before the model is loaded, which then ends, unless the server runs
 * with --disable-auto-complete-config; nothing else of the library is called there. */
NAIAD_EXPORT int naiad_model_complete(const naiad_host *host, const naiad_model_info *info, naiad_error *error);

/* Called once, after every instance is destroyed. */
NAIAD_EXPORT void naiad_model_unload(void *model);

/* Make an instance: at the load or, when the config gets more of them, while others run batches. */
NAIAD_EXPORT int naiad_instance_create(void *model, const naiad_instance_info *info, void **instance, naiad_error *error);

NAIAD_EXPORT void naiad_instance_destroy(void *instance);

/* Run a batch. NAIAD_OK: each request has its outputs, or has failed by itself (`fail`); anything else fails all of them with the text. */
NAIAD_EXPORT int naiad_execute(void *instance, const naiad_batch *batch, naiad_error *error);

/* Optional: 1 if the instance could run a batch now. May be called while it runs one. */
NAIAD_EXPORT int naiad_instance_ready(void *instance);

/* ---- batching strategies: batchstrategy.so -------------------------------------------------------------------------------------------------
 *
 * Which requests join a batch, for a model with dynamic_batching. The server looks for batchstrategy.so where it looks for batchstrategy.py. It is asked once per
 * request, on the server's event loop: the library runs IN THE SERVER'S PROCESS, and a crash of it ends the server, so that it is loaded only with
 * --batch-strategy-libraries=true. While it runs, nothing else does. Threads: one. A status other than NAIAD_OK is logged, and the batch is formed by the default rules.
 *
 * The library defines NAIAD_BATCH_STRATEGY once, naiad_strategy_create, naiad_strategy_destroy and naiad_batch_include; the other two are optional.
 */
#ifdef __cplusplus
#define NAIAD_BATCH_STRATEGY \
  extern "C" __attribute__((visibility("default"))) const uint32_t naiad_batch_strategy_abi; \
  const uint32_t naiad_batch_strategy_abi = NAIAD_BACKEND_ABI;
#else
#define NAIAD_BATCH_STRATEGY __attribute__((visibility("default"), used)) const uint32_t naiad_batch_strategy_abi = NAIAD_BACKEND_ABI;
#endif

typedef struct naiad_strategy_info {
  const char *name;
  const char *config;     /* the completed config, JSON */
  const char *parameters; /* its parameters, a JSON object of texts */
  uint64_t version;
  uint32_t max_batch_size;
  uint32_t reserved;
} naiad_strategy_info;

NAIAD_EXPORT int naiad_strategy_create(const naiad_strategy_info *info, void **strategy, naiad_error *error);
NAIAD_EXPORT void naiad_strategy_destroy(void *strategy);

/* Optional: a batch begins; `*batch` is what naiad_batch_include gets. Without it `batch` is NULL there. */
NAIAD_EXPORT int naiad_batch_begin(void *strategy, void **batch, naiad_error *error);

/* Whether a request joins the batch: `*include` is 1 before the call. Of NAIAD_BYTES inputs `data` is NULL and `byte_size` 0; timeout and flags are 0, and
 * outputs are not listed. */
NAIAD_EXPORT int naiad_batch_include(void *strategy, void *batch, const naiad_request *request, int *include, naiad_error *error);

/* Optional: the batch is over. */
NAIAD_EXPORT void naiad_batch_end(void *strategy, void *batch);

#endif
