/* The part of ONNX Runtime's C interface that operators of a library need. The runtime hands out a table of
   functions that is only ever extended at its end: a function's place in it is the same in all later versions. */

#include <pthread.h>

enum { VERSION = 17 };

enum {
  STATUS = 0, NEW_DOMAIN = 26, ADD_OPERATOR = 27, ADD_DOMAIN = 28, DATA = 51, RANK = 61, DIMS = 62, INFO = 65,
  INPUT = 90, OUTPUT = 91, FREE_INFO = 99, PARALLEL = 274
};

enum { INPUTS = 64, AXES = 16, REQUIRED = 0, FAILED = 1, INVALID = 2 };

typedef void *Status; /* NULL if all is well. */

typedef struct { void *const *(*table)(uint32_t version); const char *(*version)(void); } Base;

static void *const *ort;

static Status new_domain(const char *name, void **domain) {
  return ((Status(*)(const char *, void **))ort[NEW_DOMAIN])(name, domain);
}

static Status add_operator(void *domain, const void *op) {
  return ((Status(*)(void *, const void *))ort[ADD_OPERATOR])(domain, op);
}

static Status add_domain(void *options, void *domain) {
  return ((Status(*)(void *, void *))ort[ADD_DOMAIN])(options, domain);
}

static Status data_of(void *value, void **data) {
  return ((Status(*)(void *, void **))ort[DATA])(value, data);
}

static Status input_of(void *context, size_t place, void **value) {
  return ((Status(*)(void *, size_t, void **))ort[INPUT])(context, place, value);
}

static Status output_of(void *context, size_t place, const int64_t *dims, size_t rank, void **value) {
  return ((Status(*)(void *, size_t, const int64_t *, size_t, void **))ort[OUTPUT])(context, place, dims, rank, value);
}

static Status in_parallel(void *context, void (*part)(void *, size_t), size_t parts, void *call) {
  return ((Status(*)(void *, void (*)(void *, size_t), size_t, size_t, void *))ort[PARALLEL])(context, part, parts, 0, call);
}

/* A kernel on a part of its pieces: first to first + count. */
typedef void (*Run)(const void *const *inputs, void *output, int64_t first, int64_t count, float *scratch);

/* The runtime reads the members up to last_version, in this order; the others are the library's own. */
typedef struct Operator {
  uint32_t version;
  void *(*create)(const struct Operator *, const void *, const void *);
  const char *(*get_name)(const struct Operator *);
  const char *(*get_provider)(const struct Operator *);
  int (*get_input_type)(const struct Operator *, size_t);
  size_t (*get_inputs)(const struct Operator *);
  int (*get_output_type)(const struct Operator *, size_t);
  size_t (*get_outputs)(const struct Operator *);
  void (*compute)(void *, void *);
  void (*destroy)(void *);
  int (*get_input_kind)(const struct Operator *, size_t);
  int (*get_output_kind)(const struct Operator *, size_t);
  int (*get_memory)(const struct Operator *, size_t);
  int (*least_inputs)(const struct Operator *);
  int (*like_inputs)(const struct Operator *);
  int (*least_outputs)(const struct Operator *);
  int (*like_outputs)(const struct Operator *);
  Status (*create_2)(const struct Operator *, const void *, const void *, void **);
  Status (*compute_2)(void *, void *);
  Status (*infer)(const struct Operator *, void *);
  int (*first_version)(const struct Operator *);
  int (*last_version)(const struct Operator *);
  const char *name;
  int type, inputs, rank, parts;
  int64_t length;
  const int64_t *dims;
  Run run;
  void *(*prepare)(const void *const *inputs); /* NULL, or what is made of weights once: an input after the others, before the call's number. */
  int64_t scratch; /* The bytes of memory that a thread needs. */
} Operator;

/* A node of an operator, and what it has prepared: it is 0 while nobody, and 1 while somebody prepares it. */
typedef struct { const Operator *op; void *prepared; int state; } Node;

static const char *name_of(const Operator *op) { return op->name; }

static const char *any_provider(const Operator *op) { (void)op; return NULL; }

static int type_of(const Operator *op, size_t i) { (void)i; return op->type; }

static size_t inputs_of(const Operator *op) { return (size_t)op->inputs; }

static size_t one_output(const Operator *op) { (void)op; return 1; }

static int required(const Operator *op, size_t i) { (void)op; (void)i; return REQUIRED; }

static int one(const Operator *op) { (void)op; return 1; }

static int latest(const Operator *op) { (void)op; return INT32_MAX; }

static void destroyed(void *kernel) {
  free(((Node *)kernel)->prepared);
  free(kernel);
}

static Status failed(const char *why) { return ((Status(*)(int, const char *))ort[STATUS])(FAILED, why); }

static Status created(const Operator *op, const void *api, const void *info, void **kernel) {
  (void)api; (void)info;
  Node *node = calloc(1, sizeof *node);
  if (node == NULL) return failed("there must be memory for a kernel");
  node->op = op;
  *kernel = node;
  return NULL;
}

/* What is made of weights once, or NULL if there is no memory for it; the next call tries again. */
static const void *prepared(Node *node, const void *const *inputs) {
  for (;;) {
    int state = 0;
    if (__atomic_compare_exchange_n(&node->state, &state, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      node->prepared = node->op->prepare(inputs);
      __atomic_store_n(&node->state, node->prepared == NULL ? 0 : 2, __ATOMIC_RELEASE);
      return node->prepared;
    }
    if (state == 2) return node->prepared;
  }
}

static pthread_key_t own;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void with_key(void) { pthread_key_create(&own, free); }

/* Memory of the thread, kept for the next kernel until the thread ends: its size lies before it, and two marks of the
   kernel about what it holds, at first 0. NULL if there is none. */
static float *scratch(int64_t bytes) {
  enum { PAGE = 4096 };
  pthread_once(&once, with_key);
  int64_t *kept = pthread_getspecific(own);
  if (kept == NULL || *kept < bytes) {
    free(kept);
    int64_t size = (bytes + PAGE - 1) / PAGE * PAGE;
    kept = aligned_alloc(PAGE, (size_t)size + PAGE);
    if (pthread_setspecific(own, kept) || kept == NULL) return NULL;
    memset(kept, 0, PAGE);
    *kept = size;
  }
  return (float *)((char *)kept + PAGE);
}

typedef struct { const Operator *op; const void *inputs[INPUTS + 2]; void *output; int64_t length, number; int parts, failed; } Call;

/* One of the parts of a call. */
static void part(void *given, size_t number) {
  Call *call = given;
  const Operator *op = call->op;
  int64_t first = call->length * (int64_t)number / call->parts, next = call->length * ((int64_t)number + 1) / call->parts;
  float *memory = op->scratch ? scratch(op->scratch) : NULL;
  if (op->scratch && memory == NULL) __atomic_store_n(&call->failed, 1, __ATOMIC_RELAXED);
  else if (next > first) op->run(call->inputs, call->output, first, next - first, memory);
}

/* The number of images, which the first axis of the first input has. */
static Status images_of(void *value, int64_t *count) {
  void *info;
  size_t rank;
  int64_t dims[AXES];
  Status wrong;
  if ((wrong = ((Status(*)(void *, void **))ort[INFO])(value, &info))) return wrong;
  if (!(wrong = ((Status(*)(void *, size_t *))ort[RANK])(info, &rank)) && rank <= AXES)
    wrong = ((Status(*)(void *, int64_t *, size_t))ort[DIMS])(info, dims, rank);
  *count = rank <= AXES ? dims[0] : 0;
  ((void (*)(void *))ort[FREE_INFO])(info);
  return wrong;
}

static Status computed(void *kernel, void *context) {
  const Operator *op = ((Node *)kernel)->op;
  static int64_t calls;
  Call call = {.op = op, .length = op->length, .parts = op->parts};
  call.number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  call.inputs[op->inputs + 1] = &call.number;
  void *value;
  int64_t dims[AXES];
  memcpy(dims, op->dims, sizeof(int64_t) * (size_t)op->rank);
  Status wrong;
  for (size_t i = 0; i < (size_t)op->inputs; i++) {
    if ((wrong = input_of(context, i, &value))) return wrong;
    if ((wrong = data_of(value, (void **)&call.inputs[i]))) return wrong;
    if (i == 0 && op->prepare != NULL && (wrong = images_of(value, dims))) return wrong;
  }
  if (op->prepare != NULL) {
    call.length *= dims[0];
    if ((call.inputs[op->inputs] = prepared(kernel, call.inputs)) == NULL)
      return failed("there must be memory for the transformed weights of a kernel (try a bound on it)");
  }
  if ((wrong = output_of(context, 0, dims, (size_t)op->rank, &value))) return wrong;
  if ((wrong = data_of(value, &call.output))) return wrong;
  if (call.parts > 1) wrong = in_parallel(context, part, (size_t)call.parts, &call);
  else part(&call, 0);
  return wrong || !call.failed ? wrong : failed("there must be memory for the tiles of a kernel");
}

static Operator operators[OPERATORS];

/* Whether this processor has what the compiler was allowed to use. Else the first kernel would end the process. */
static int fits(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#ifdef __FMA4__
  if (!__builtin_cpu_supports("fma4")) return 0;
#endif
#ifdef __AVX__
  if (!__builtin_cpu_supports("avx")) return 0;
#endif
#ifdef __AVX2__
  if (!__builtin_cpu_supports("avx2")) return 0;
#endif
#ifdef __FMA__
  if (!__builtin_cpu_supports("fma")) return 0;
#endif
#ifdef __AVX512F__
  if (!__builtin_cpu_supports("avx512f")) return 0;
#endif
#ifdef __AVX512BW__
  if (!__builtin_cpu_supports("avx512bw")) return 0;
#endif
#ifdef __AVX512DQ__
  if (!__builtin_cpu_supports("avx512dq")) return 0;
#endif
#ifdef __AVX512VL__
  if (!__builtin_cpu_supports("avx512vl")) return 0;
#endif
#ifdef __AVX512VNNI__
  if (!__builtin_cpu_supports("avx512vnni")) return 0;
#endif
#endif
  return 1;
}

Status RegisterCustomOps(void *options, const Base *base) {
  static void *domain;
  Status wrong;
  Status (*refuse)(int, const char *) = (Status(*)(int, const char *))base->table(1)[STATUS];
  if (!fits()) return refuse(INVALID, "the library was made for another processor (try making it on this one)");
  ort = base->table(VERSION);
  if (ort == NULL) return refuse(INVALID, "ONNX Runtime must be of version 1.17 or newer");
  if (domain == NULL) {
    if ((wrong = new_domain(DOMAIN, &domain))) return wrong;
    for (int i = 0; i < OPERATORS; i++) {
      Operator *op = &operators[i];
      op->version = VERSION;
      op->get_name = name_of, op->get_provider = any_provider;
      op->get_input_type = op->get_output_type = type_of;
      op->get_inputs = inputs_of, op->get_outputs = one_output;
      op->get_input_kind = op->get_output_kind = op->get_memory = required;
      op->least_inputs = op->like_inputs = op->least_outputs = op->like_outputs = one;
      op->create_2 = created, op->compute_2 = computed, op->destroy = destroyed;
      op->first_version = one, op->last_version = latest;
      if ((wrong = add_operator(domain, op))) return wrong;
    }
  }
  return add_domain(options, domain);
}
