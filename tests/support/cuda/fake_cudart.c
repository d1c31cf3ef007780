/* A CUDA runtime whose devices' memory are memfds: what `naiad.tensors.cudart` calls, between processes as well.

   A device address is mapped without access, so that a host that reads it dies, and the values are in a second mapping. What lives is written into a
   shared file (FAKE_CUDA_STATE), which a test reads: `State` of the package beside. There an error can be ordered as well. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALLOCATED = 1, OPENED = 2, REGISTERED = 3 };
enum { SLOTS = 8192, TABLE = 4096 };
enum { INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 101, NO_CONTEXT = 201, MAPPED_TWICE = 208, BAD_HANDLE = 400 };

struct slot { int32_t pid, kind; uint64_t serial, size; };
struct state {
  char fail_call[64];
  int32_t fail_status, fail_after;
  int64_t opens, closes, copies, copied, synchronizes, freed_while_open, registers, mallocs;
  uint64_t serials;
  struct slot slots[SLOTS];
};
struct range { char *address, *values; size_t size; int fd, device, kind, slot; uint64_t serial; };
struct handle { uint64_t magic; int32_t pid, fd; uint64_t size, serial; int32_t device, unused; char rest[24]; };

static struct state *state;
static struct range table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int current, last, mode;
static uintptr_t streams = 16;

static void open_state(void) {
  if (state) return;
  const char *path = getenv("FAKE_CUDA_STATE");
  int fd = path ? open(path, O_RDWR) : -1;
  void *found = fd < 0 ? mmap(0, sizeof *state, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                       : mmap(0, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  state = found;
}

static int failed(const char *call) {
  open_state();
  if (strcmp(state->fail_call, call)) return 0;
  if (__sync_fetch_and_sub(&state->fail_after, 1) > 0) return 0;
  return last = state->fail_status;
}
#define MAY_FAIL do { int ordered = failed(__func__); if (ordered) return ordered; } while (0)

static int devices(void) { const char *n = getenv("FAKE_CUDA_DEVICES"); return n ? atoi(n) : 2; }

static int visible(int ordinal) { /* the number on the machine, -1 for none */
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  if (!list) return ordinal < devices() ? ordinal : -1;
  for (int at = 0; *list; at++) {
    int number = atoi(strncmp(list, "GPU-", 4) ? list : list + 4);
    if (at == ordinal) return number < devices() ? number : -1;
    list = strchr(list, ',');
    if (!list) break;
    list++;
  }
  return -1;
}

static int taken(int kind, uint64_t serial, size_t size) {
  for (int i = 0; i < SLOTS; i++)
    if (__sync_bool_compare_and_swap(&state->slots[i].kind, 0, kind)) {
      state->slots[i].pid = getpid(); state->slots[i].serial = serial; state->slots[i].size = size;
      return i;
    }
  abort();
}
static void released(int slot) { __sync_lock_test_and_set(&state->slots[slot].kind, 0); }

static struct range *within(const char *address) {
  for (int i = 0; i < TABLE; i++)
    if (table[i].kind && table[i].kind != REGISTERED && address >= table[i].address && address < table[i].address + table[i].size) return &table[i];
  return 0;
}

static int mapped(int fd, size_t size, int device, int kind, uint64_t serial, void **out) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < TABLE; i++) {
    struct range *found = &table[i];
    if (found->kind) continue;
    size_t whole = (size + 4095) & ~(size_t)4095;
    found->address = mmap(0, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    found->values = mmap(0, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    found->size = size; found->fd = fd; found->device = device; found->kind = kind; found->serial = serial;
    found->slot = taken(kind, serial, size);
    *out = found->address;
    pthread_mutex_unlock(&lock);
    return 0;
  }
  abort();
}

static int unmapped(char *base, int kind) {
  pthread_mutex_lock(&lock);
  struct range *found = within(base);
  if (!found || found->address != base || found->kind != kind) { pthread_mutex_unlock(&lock); return last = INVALID; }
  size_t whole = (found->size + 4095) & ~(size_t)4095;
  munmap(found->address, whole); munmap(found->values, whole); close(found->fd);
  released(found->slot);
  if (kind == ALLOCATED)
    for (int i = 0; i < SLOTS; i++)
      if (state->slots[i].kind == OPENED && state->slots[i].serial == found->serial) __sync_fetch_and_add(&state->freed_while_open, 1);
  found->kind = 0;
  pthread_mutex_unlock(&lock);
  return 0;
}

int cudaGetDeviceCount(int *count) {
  MAY_FAIL;
  for (*count = 0; visible(*count) >= 0; ++*count) {}
  return *count ? 0 : (last = 100);
}
int cudaGetDevice(int *device) { MAY_FAIL; *device = current; return 0; }
int cudaSetDevice(int device) { MAY_FAIL; if (visible(device) < 0) return last = NO_DEVICE; current = device; return 0; }
int cudaMalloc(void **out, size_t size) {
  MAY_FAIL;
  if (visible(current) < 0) return last = NO_DEVICE;
  uint64_t serial = __sync_add_and_fetch(&state->serials, 1);
  char name[64];
  snprintf(name, sizeof name, "fakecuda-%llu-", (unsigned long long)serial);
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (size + 4095) & ~(size_t)4095)) return last = NO_MEMORY;
  __sync_fetch_and_add(&state->mallocs, 1);
  return mapped(fd, size, visible(current), ALLOCATED, serial, out);
}
int cudaFree(void *base) { MAY_FAIL; return base ? unmapped(base, ALLOCATED) : 0; }
int cudaIpcGetMemHandle(struct handle *out, void *base) {
  MAY_FAIL;
  if (getenv("FAKE_CUDA_NO_IPC")) return last = INVALID;
  pthread_mutex_lock(&lock);
  struct range *found = within(base);
  int wrong = !found || found->address != base || found->kind != ALLOCATED;
  if (!wrong) {
    memset(out, 0, sizeof *out);
    out->magic = 0xFA4E; out->pid = getpid(); out->fd = found->fd; out->size = found->size;
    out->serial = found->serial; out->device = found->device;
  }
  pthread_mutex_unlock(&lock);
  return wrong ? (last = INVALID) : 0;
}
int cudaIpcOpenMemHandle(void **out, struct handle given, unsigned flags) {
  MAY_FAIL;
  if (given.magic != 0xFA4E || flags != 1) return last = BAD_HANDLE;
  if (given.pid == getpid()) return last = NO_CONTEXT;
  if (visible(current) != given.device) return last = INVALID;
  pthread_mutex_lock(&lock);
  int twice = 0;
  for (int i = 0; i < TABLE; i++) twice |= table[i].kind == OPENED && table[i].serial == given.serial;
  pthread_mutex_unlock(&lock);
  if (twice) return last = MAPPED_TWICE;
  char path[64], name[64], link[256] = "";
  snprintf(path, sizeof path, "/proc/%d/fd/%d", given.pid, given.fd);
  snprintf(name, sizeof name, "fakecuda-%llu-", (unsigned long long)given.serial);
  if (readlink(path, link, sizeof link - 1) < 0 || !strstr(link, name)) return last = BAD_HANDLE;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return last = BAD_HANDLE;
  __sync_fetch_and_add(&state->opens, 1);
  return mapped(fd, given.size, given.device, OPENED, given.serial, out);
}
int cudaIpcCloseMemHandle(void *base) { MAY_FAIL; __sync_fetch_and_add(&state->closes, 1); return unmapped(base, OPENED); }
int cudaMemcpyAsync(void *target, const void *source, size_t size, int kind, void *stream) {
  MAY_FAIL;
  (void)stream;
  pthread_mutex_lock(&lock);
  struct range *to = within(target), *from = within(source);
  int wrong = (kind == 1 && (!to || from)) || (kind == 2 && (to || !from)) || (kind == 3 && (!to || !from));
  if (to) { wrong |= (char *)target + size > to->address + to->size; target = to->values + ((char *)target - to->address); }
  if (from) { wrong |= (char *)source + size > from->address + from->size; source = from->values + ((char *)source - from->address); }
  if (!wrong) { memcpy(target, source, size); __sync_fetch_and_add(&state->copies, 1); __sync_fetch_and_add(&state->copied, size); }
  pthread_mutex_unlock(&lock);
  return wrong ? (last = INVALID) : 0;
}
int cudaStreamCreateWithFlags(void **out, unsigned flags) { MAY_FAIL; (void)flags; *out = (void *)__sync_add_and_fetch(&streams, 16); return 0; }
int cudaStreamSynchronize(void *stream) { MAY_FAIL; (void)stream; return 0; }
int cudaDeviceSynchronize(void) { MAY_FAIL; __sync_fetch_and_add(&state->synchronizes, 1); return 0; }
int cudaThreadExchangeStreamCaptureMode(int *given) { MAY_FAIL; int before = mode; mode = *given; *given = before; return 0; }
int cudaHostRegister(void *address, size_t size, unsigned flags) {
  MAY_FAIL;
  (void)flags;
  pthread_mutex_lock(&lock);
  int at = -1;
  for (int i = 0; i < TABLE; i++) {
    if (table[i].kind == REGISTERED && table[i].address == address) { pthread_mutex_unlock(&lock); return last = 712; }
    if (at < 0 && !table[i].kind) at = i;
  }
  table[at].kind = REGISTERED; table[at].address = address; table[at].size = size; table[at].slot = taken(REGISTERED, 0, size);
  pthread_mutex_unlock(&lock);
  __sync_fetch_and_add(&state->registers, 1);
  return 0;
}
int cudaHostUnregister(void *address) {
  MAY_FAIL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < TABLE; i++)
    if (table[i].kind == REGISTERED && table[i].address == address) {
      released(table[i].slot); table[i].kind = 0; pthread_mutex_unlock(&lock);
      return 0;
    }
  pthread_mutex_unlock(&lock);
  return last = 713;
}
int cudaGetLastError(void) { int found = last; last = 0; return found; }
const char *cudaGetErrorName(int status) {
  return status == INVALID ? "cudaErrorInvalidValue" : status == NO_MEMORY ? "cudaErrorMemoryAllocation"
       : status == BAD_HANDLE ? "cudaErrorInvalidResourceHandle" : status == 700 ? "cudaErrorIllegalAddress" : "cudaErrorOfTheFake";
}
const char *cudaGetErrorString(int status) { return status == NO_MEMORY ? "out of memory" : "an error of the fake"; }
int cuDeviceGet(int *out, int device) { MAY_FAIL; *out = visible(device); return *out < 0 ? NO_DEVICE : 0; }
int cuDeviceGetUuid_v2(unsigned char *out, int device) { MAY_FAIL; memset(out, 0, 16); memcpy(out, "FAKE", 4); out[15] = (unsigned char)device; return 0; }
int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address) {
  MAY_FAIL;
  pthread_mutex_lock(&lock);
  struct range *found = within((char *)address);
  if (found) { *base = (uint64_t)found->address; *size = found->size; }
  pthread_mutex_unlock(&lock);
  return found ? 0 : BAD_HANDLE;
}
