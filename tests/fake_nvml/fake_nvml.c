/* A libnvidia-ml.so.1 without a GPU. It answers from one mapped file, which the test writes: the clock, each GPU's
   true power over time, what its sensors see of that, faults, latencies. It counts every call in the same file.

   The truth is a list of stretches (ns, mW) that begins again at its end. A power sensor holds the mean over its window
   as of its last refresh; the energy counter holds the integral as of its own. Compile with -DOLD_DRIVER for a driver
   that lacks what was added in the last years. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GPUS 16
#define MIGS 4
#define STRETCHES 64
#define FIELDS 320
#define XIDS 16
#define USERS 8
#define COLD_AFTER 1000000LL /* ns */

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT = 7, TIMEOUT = 10, MISMATCH = 25 };

#define CALLS(X) X(Init) X(FieldValues) X(PowerUsage) X(TotalEnergy) X(TemperatureV) X(Temperature) X(Utilization) \
    X(MemoryInfo) X(MemoryInfo_v2) X(ClockInfo) X(PerformanceState) X(EventReasons) X(ThrottleReasons) X(PowerLimit) \
    X(FanSpeed) X(EccErrors) X(RemappedRows) X(GpmSample) X(GpmMetrics) X(EventWait) X(Facts) X(Processes) X(ProcessUtilization)
#define NAME(n) CALL_##n,
enum { CALLS(NAME) CALL_COUNT };

typedef struct { int64_t window_ns, refresh_ns, phase_ns; } Sensor;

typedef struct { uint64_t memory; uint32_t pid, share, graphics, unused; } User; /* share: % of the time */

typedef struct {
    char name[64], uuid[80];
    uint64_t memory_total, memory_used, throttle, ecc;
    uint32_t power_limit_mw, sm_mhz, mem_mhz, pstate, fan, remapped[2];
    uint32_t pcie_bits, gpm, mig_count, gone, hang, xid_count, pcie_generation;
    uint64_t xids[XIDS];
    uint64_t pcie_rx_rate, pcie_tx_rate, nvlink_rx_rate, nvlink_tx_rate; /* bytes a second */
    uint64_t counter_start;                                            /* of the byte counters */
    int64_t pcie_refresh_ns, nvlink_refresh_ns;                        /* of the byte counters; 0: at each call */
    Sensor power, average, energy;
    uint64_t stretches;
    int64_t durations_ns[STRETCHES], levels_mw[STRETCHES];
    int32_t call_status[32], field_status[FIELDS];
    int64_t stall_ns;                                                  /* of the next call of this kind, once */
    uint32_t stall_call, user_count;                                   /* n + 1: call n */
    User users[USERS];
} Gpu;

typedef struct {
    int64_t now_ns;       /* 0: the monotonic clock, from `began_ns` on */
    int64_t began_ns, latency_ns, inside_ns;
    uint32_t gpu_count, init_status, epoch, measure;
    uint64_t calls[32];
    int64_t call_latency_ns[32]; /* beside `latency_ns` */
    int64_t field_latency_ns[FIELDS];
    uint32_t cold, unused; /* how many times as long a call or a field takes that was not asked for within COLD_AFTER */
    Gpu gpus[GPUS];
} State;

typedef struct { int gpu, mig; } Device;
typedef struct { int64_t at; int gpu; } Sample;
typedef struct { uint32_t id, scope; int64_t stamp, latency; uint32_t type, status; union { uint64_t u64; uint32_t u32; double d; } value; } FieldValue;
typedef struct { uint32_t id, status; double value; char *names[3]; } Metric;
typedef struct { uint32_t version, count; Sample *old, *new; Metric metrics[]; } Metrics;
typedef struct { void *device; uint64_t kind, data; uint32_t gi, ci; } Event;

static State *state;
static uint32_t started_in = UINT32_MAX;
static Device devices[GPUS], instances[GPUS][MIGS];
static uint32_t xids_told[GPUS];
static int64_t asked_until[GPUS][CALL_COUNT + FIELDS];

static int64_t real_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int64_t now_ns(void) { return state->now_ns ? state->now_ns : real_ns() - state->began_ns; }

static void nap(long ns) {
    struct timespec t = {ns / 1000000000L, ns % 1000000000L};
    nanosleep(&t, NULL);
}

static void (*on_stall)(int64_t ns); /* where the clock is a test's, it lets that much time pass */
void fake_nvml_on_stall(void (*hook)(int64_t)) { on_stall = hook; }

static void stall(Gpu *gpu, int call) {
    int64_t ns = __atomic_load_n(&gpu->stall_ns, __ATOMIC_ACQUIRE);
    if (!ns || gpu->stall_call != (uint32_t)call + 1) return;
    if (!__atomic_compare_exchange_n(&gpu->stall_ns, &ns, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
    if (on_stall) on_stall(ns);
    else nap(ns);
}

static int open_state(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    if (state || !path) return state != NULL;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return 0;
    void *memory = mmap(NULL, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return 0;
    state = memory;
    return 1;
}

/* Time that a test steers passes without waiting. */
static void take(int64_t ns) {
    int64_t began = state->measure || ns ? real_ns() : 0;
    if (ns && state->now_ns) state->now_ns += ns;
    else if (ns)
        while (real_ns() - began < ns) {}
    if (state->measure) __atomic_fetch_add(&state->inside_ns, real_ns() - began, __ATOMIC_RELAXED);
}

static int64_t with_caches(Device *device, int asked, int64_t ns) {
    if (!device || !ns || !state->cold) return ns;
    int64_t *until = &asked_until[device->gpu][asked], began = now_ns();
    if (began - *until > COLD_AFTER) ns *= state->cold;
    *until = began + ns;
    return ns;
}

/* What every call begins with: count, cost, hang, and whether this driver and GPU answer at all. */
static int enter(Device *device, int call) {
    if (!state || started_in != state->epoch) return UNINITIALIZED;
    __atomic_fetch_add(&state->calls[call], 1, __ATOMIC_RELAXED);
    Gpu *gpu = device ? &state->gpus[device->gpu] : NULL;
    take(with_caches(device, call, state->latency_ns + state->call_latency_ns[call]));
    if (!gpu) return OK;
    stall(gpu, call);
    uint32_t hang; /* 1: every call; n + 2: call n */
    while ((hang = __atomic_load_n(&gpu->hang, __ATOMIC_RELAXED)) == 1 || hang == (uint32_t)call + 2) nap(1000000);
    return gpu->gone ? (int)gpu->gone : gpu->call_status[call];
}

#define ENTER(device, call) do { int status = enter(device, CALL_##call); if (status) return status; } while (0)
#define GPU(device) (&state->gpus[((Device *)(device))->gpu])

/* The truth. */

static double energy_mj(const Gpu *gpu, int64_t until) { /* mW * ns = pJ */
    if (until <= 0) return 0;
    int64_t period = 0;
    double whole = 0, part = 0;
    for (uint64_t i = 0; i < gpu->stretches; i++) {
        period += gpu->durations_ns[i];
        whole += (double)gpu->durations_ns[i] * gpu->levels_mw[i];
    }
    if (!period) return 0;
    int64_t rest = until % period;
    for (uint64_t i = 0; i < gpu->stretches && rest > 0; i++) {
        int64_t here = rest < gpu->durations_ns[i] ? rest : gpu->durations_ns[i];
        part += (double)here * gpu->levels_mw[i];
        rest -= here;
    }
    return ((double)(until / period) * whole + part) / 1e9;
}

static int64_t refreshed(Sensor sensor) {
    int64_t since = now_ns() - sensor.phase_ns;
    return since < 0 ? 0 : since / sensor.refresh_ns * sensor.refresh_ns + sensor.phase_ns;
}

static uint32_t power_mw(const Gpu *gpu, Sensor sensor) {
    int64_t end = refreshed(sensor), start = end - sensor.window_ns;
    return (uint32_t)((energy_mj(gpu, end) - energy_mj(gpu, start)) * 1e9 / sensor.window_ns + 0.5);
}

static double load(const Gpu *gpu, int64_t start, int64_t end) { /* 0 at the lowest level, 1 at the highest */
    int64_t low = gpu->levels_mw[0], high = low;
    for (uint64_t i = 1; i < gpu->stretches; i++) {
        if (gpu->levels_mw[i] < low) low = gpu->levels_mw[i];
        if (gpu->levels_mw[i] > high) high = gpu->levels_mw[i];
    }
    if (high == low || end <= start) return 0;
    double mean = (energy_mj(gpu, end) - energy_mj(gpu, start)) * 1e9 / (end - start);
    return (mean - low) / (high - low);
}

static uint64_t counted(const Gpu *gpu, uint64_t bytes_a_second, uint64_t bytes_a_count, int64_t refresh_ns) {
    int64_t until = refresh_ns ? now_ns() / refresh_ns * refresh_ns : now_ns();
    return gpu->counter_start + (uint64_t)((double)until / 1e9 * bytes_a_second / bytes_a_count);
}

/* The interface. */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!open_state()) return 9; /* driver not loaded */
    __atomic_fetch_add(&state->calls[CALL_Init], 1, __ATOMIC_RELAXED);
    if (state->init_status) return (int)state->init_status;
    started_in = state->epoch;
    for (int i = 0; i < GPUS; i++) {
        devices[i] = (Device){i, -1};
        for (int m = 0; m < MIGS; m++) instances[i][m] = (Device){i, m};
    }
    return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { started_in = UINT32_MAX; return OK; }
const char *nvmlErrorString(int status) { static char text[32]; snprintf(text, sizeof text, "status %d", status); return text; }

static int say(char *out, unsigned size, const char *text) { snprintf(out, size, "%s", text); return OK; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) { ENTER(NULL, Facts); return say(out, size, "575.51.03"); }
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(NULL, Facts); *count = state->gpu_count; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **handle) {
    ENTER(NULL, Facts);
    if (i >= state->gpu_count) return INVALID;
    if (state->gpus[i].gone) return (int)state->gpus[i].gone;
    *handle = &devices[i];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    ENTER(NULL, Facts);
    for (unsigned i = 0; i < state->gpu_count; i++)
        if (!strcmp(state->gpus[i].uuid, uuid)) return nvmlDeviceGetHandleByIndex_v2(i, handle);
    return NOT_FOUND;
}

int nvmlDeviceGetName(void *d, char *out, unsigned size) {
    ENTER(d, Facts);
    Device *device = d;
    char text[80];
    snprintf(text, sizeof text, device->mig < 0 ? "%s" : "%s MIG 1g.10gb", GPU(d)->name);
    return say(out, size, text);
}

int nvmlDeviceGetUUID(void *d, char *out, unsigned size) {
    ENTER(d, Facts);
    Device *device = d;
    char text[96];
    if (device->mig < 0) return say(out, size, GPU(d)->uuid);
    snprintf(text, sizeof text, "MIG-%d-%d", device->gpu, device->mig);
    return say(out, size, text);
}

int nvmlDeviceGetMaxClockInfo(void *d, unsigned kind, unsigned *mhz) {
    ENTER(d, Facts);
    *mhz = kind == 2 ? GPU(d)->mem_mhz : GPU(d)->sm_mhz;
    return OK;
}
int nvmlDeviceGetTemperatureThreshold(void *d, unsigned which, unsigned *c) { ENTER(d, Facts); *c = which ? 90 : 95; return OK; }
int nvmlDeviceGetPowerManagementLimitConstraints(void *d, unsigned *low, unsigned *high) {
    ENTER(d, PowerLimit);
    *low = 200000;
    *high = GPU(d)->power_limit_mw;
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *mw) { ENTER(d, PowerLimit); *mw = GPU(d)->power_limit_mw; return OK; }

int nvmlDeviceGetMigMode(void *d, unsigned *current, unsigned *pending) {
    ENTER(d, Facts);
    *current = *pending = GPU(d)->mig_count > 0;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *count) { ENTER(d, Facts); *count = GPU(d)->mig_count ? MIGS : 0; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **handle) {
    ENTER(d, Facts);
    if (i >= GPU(d)->mig_count) return NOT_FOUND;
    *handle = &instances[((Device *)d)->gpu][i];
    return OK;
}
int nvmlDeviceGetGpuInstanceId(void *d, unsigned *id) { ENTER(d, Facts); *id = ((Device *)d)->mig + 7; return OK; }

int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *generation) { ENTER(d, Facts); *generation = GPU(d)->pcie_generation; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *lanes) { ENTER(d, Facts); *lanes = 16; return OK; }

#define ON_A_WHOLE_GPU(d) do { if (((Device *)(d))->mig >= 0) return NOT_SUPPORTED; } while (0)

static void field(Gpu *gpu, FieldValue *f) {
    f->stamp = now_ns() / 1000;
    f->status = f->id < FIELDS ? gpu->field_status[f->id] : INVALID;
    f->type = 1;
    if (f->status) return;
    switch (f->id) {
    case 186: f->value.u32 = power_mw(gpu, gpu->power); break;
    case 185: f->value.u32 = power_mw(gpu, gpu->average); break;
    case 83: f->type = 3; f->value.u64 = (uint64_t)energy_mj(gpu, refreshed(gpu->energy)); break;
    case 82: f->value.u32 = 40 + power_mw(gpu, gpu->average) / 15000; break;
    case 190: f->value.u32 = gpu->power_limit_mw; break;
    case 197: case 198: {
        uint64_t bytes = counted(gpu, f->id == 198 ? gpu->pcie_rx_rate : gpu->pcie_tx_rate, 1, gpu->pcie_refresh_ns);
        f->type = gpu->pcie_bits == 32 ? 1 : 3;
        f->value.u64 = gpu->pcie_bits == 64 ? bytes : bytes & 0xFFFFFFFF;
        break;
    }
    case 138: case 139:
        if (f->scope != UINT32_MAX) { f->status = INVALID; break; }
        f->type = 3;
        f->value.u64 = counted(gpu, f->id == 139 ? gpu->nvlink_rx_rate : gpu->nvlink_tx_rate, 1024, gpu->nvlink_refresh_ns);
        break;
    default: f->status = NOT_SUPPORTED;
    }
}

int nvmlDeviceGetFieldValues(void *d, int count, FieldValue *values) {
    ENTER(d, FieldValues);
    ON_A_WHOLE_GPU(d);
    for (int i = 0; i < count; i++) {
        uint32_t id = values[i].id;
        if (id < FIELDS) take(with_caches(d, CALL_COUNT + (int)id, state->field_latency_ns[id]));
        field(GPU(d), &values[i]);
    }
    return OK;
}

int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { ENTER(d, PowerUsage); ON_A_WHOLE_GPU(d); *mw = power_mw(GPU(d), GPU(d)->average); return OK; }
int nvmlDeviceGetTotalEnergyConsumption(void *d, uint64_t *mj) {
    ENTER(d, TotalEnergy);
    ON_A_WHOLE_GPU(d);
    *mj = (uint64_t)energy_mj(GPU(d), refreshed(GPU(d)->energy));
    return OK;
}

static int celsius(Gpu *gpu) { return 30 + power_mw(gpu, gpu->average) / 20000; }
int nvmlDeviceGetTemperature(void *d, unsigned which, unsigned *c) { (void)which; ENTER(d, Temperature); ON_A_WHOLE_GPU(d); *c = celsius(GPU(d)); return OK; }
int nvmlDeviceGetUtilizationRates(void *d, unsigned *rates) {
    ENTER(d, Utilization);
    ON_A_WHOLE_GPU(d);
    int64_t end = refreshed(GPU(d)->power);
    rates[0] = (unsigned)(100 * load(GPU(d), end - 1000000000, end) + 0.5);
    rates[1] = rates[0] / 2;
    return OK;
}

static uint64_t share(void *d, uint64_t bytes) { return ((Device *)d)->mig < 0 ? bytes : bytes / MIGS; }
int nvmlDeviceGetMemoryInfo(void *d, uint64_t *memory) {
    ENTER(d, MemoryInfo);
    memory[0] = share(d, GPU(d)->memory_total);
    memory[2] = share(d, GPU(d)->memory_used);
    memory[1] = memory[0] - memory[2];
    return OK;
}

int nvmlDeviceGetClockInfo(void *d, unsigned kind, unsigned *mhz) {
    ENTER(d, ClockInfo);
    ON_A_WHOLE_GPU(d);
    *mhz = kind == 2 ? GPU(d)->mem_mhz : GPU(d)->sm_mhz;
    return OK;
}
int nvmlDeviceGetPerformanceState(void *d, unsigned *p) { ENTER(d, PerformanceState); ON_A_WHOLE_GPU(d); *p = GPU(d)->pstate; return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, uint64_t *why) { ENTER(d, ThrottleReasons); ON_A_WHOLE_GPU(d); *why = GPU(d)->throttle; return OK; }
int nvmlDeviceGetFanSpeed(void *d, unsigned *percent) { ENTER(d, FanSpeed); ON_A_WHOLE_GPU(d); *percent = GPU(d)->fan; return OK; }
int nvmlDeviceGetTotalEccErrors(void *d, unsigned kind, unsigned counter, uint64_t *count) {
    (void)counter;
    ENTER(d, EccErrors);
    *count = kind == 1 ? GPU(d)->ecc : 0;
    return OK;
}
int nvmlDeviceGetRemappedRows(void *d, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
    ENTER(d, RemappedRows);
    ON_A_WHOLE_GPU(d);
    *correctable = GPU(d)->remapped[0];
    *uncorrectable = GPU(d)->remapped[1];
    *pending = *failed = 0;
    return OK;
}

#ifndef OLD_DRIVER
typedef struct { uint32_t version, sensor; int32_t celsius; } Temperature;
int nvmlDeviceGetTemperatureV(void *d, Temperature *t) {
    ENTER(d, TemperatureV);
    ON_A_WHOLE_GPU(d);
    if (t->version != (sizeof *t | 1 << 24)) return MISMATCH;
    t->celsius = celsius(GPU(d));
    return OK;
}

typedef struct { uint32_t version; uint64_t total, reserved, free, used; } Memory;
int nvmlDeviceGetMemoryInfo_v2(void *d, Memory *memory) {
    ENTER(d, MemoryInfo_v2);
    if (memory->version != (sizeof *memory | 2 << 24)) return MISMATCH;
    memory->total = share(d, GPU(d)->memory_total);
    memory->used = share(d, GPU(d)->memory_used);
    memory->reserved = 0;
    memory->free = memory->total - memory->used;
    return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *d, uint64_t *why) { ENTER(d, EventReasons); ON_A_WHOLE_GPU(d); *why = GPU(d)->throttle; return OK; }

int nvmlGpmQueryDeviceSupport(void *d, uint32_t *support) { ENTER(d, Facts); support[1] = GPU(d)->gpm; return support[0] == 1 ? OK : MISMATCH; }
int nvmlGpmSampleAlloc(Sample **sample) { *sample = calloc(1, sizeof **sample); return OK; }
int nvmlGpmSampleFree(Sample *sample) { free(sample); return OK; }
int nvmlGpmSampleGet(void *d, Sample *sample) {
    ENTER(d, GpmSample);
    ON_A_WHOLE_GPU(d);
    if (!GPU(d)->gpm) return NOT_SUPPORTED;
    *sample = (Sample){now_ns(), ((Device *)d)->gpu};
    return OK;
}
int nvmlGpmMigSampleGet(void *d, unsigned instance, Sample *sample) { return instance < 7 ? INVALID : nvmlGpmSampleGet(d, sample); }
int nvmlGpmMetricsGet(Metrics *metrics) {
    ENTER(NULL, GpmMetrics);
    if (metrics->version != 1) return MISMATCH;
    Sample *old = metrics->old, *new = metrics->new;
    if (!old || !new || old->gpu != new->gpu || old->at >= new->at) return INVALID;
    double busy = load(&state->gpus[new->gpu], old->at, new->at);
    for (uint32_t i = 0; i < metrics->count; i++) {
        Metric *metric = &metrics->metrics[i];
        metric->status = OK;
        switch (metric->id) {
        case 2: metric->value = 100 * busy; break;
        case 5: metric->value = 50 * busy; break;
        case 10: metric->value = 40 * busy; break;
        default: metric->status = NOT_SUPPORTED;
        }
    }
    return OK;
}
#endif

typedef struct { uint32_t pid; uint64_t memory; uint32_t gi, ci; } ProcessInfo;
static int listed(void *d, int graphics, unsigned *count, ProcessInfo *infos) {
    ENTER(d, Processes);
    unsigned room = *count, found = 0;
    for (uint32_t i = 0; i < GPU(d)->user_count; i++) {
        User *user = &GPU(d)->users[i];
        if ((int)user->graphics != graphics) continue;
        if (found < room) infos[found] = (ProcessInfo){user->pid, user->memory, ~0u, ~0u};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *d, unsigned *count, ProcessInfo *infos) { return listed(d, 0, count, infos); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *d, unsigned *count, ProcessInfo *infos) { return listed(d, 1, count, infos); }
#ifndef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, ProcessInfo *infos) { return listed(d, 0, count, infos); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *count, ProcessInfo *infos) { return listed(d, 1, count, infos); }
#endif

typedef struct { uint32_t pid; uint64_t stamp; uint32_t sm, memory, encoder, decoder; } ProcessSample;
int nvmlDeviceGetProcessUtilization(void *d, ProcessSample *samples, unsigned *count, uint64_t since) { /* one each second */
    ENTER(d, ProcessUtilization);
    ON_A_WHOLE_GPU(d);
    uint64_t last = now_ns() / 1000000000 * 1000000, room = *count, found = 0;
    for (uint64_t stamp = last > 4000000 ? last - 4000000 : 0; stamp <= last; stamp += 1000000)
        for (uint32_t i = 0; i < GPU(d)->user_count && stamp > since; i++) {
            User *user = &GPU(d)->users[i];
            if (!user->share) continue;
            if (found < room) samples[found] = (ProcessSample){user->pid, stamp, user->share, 0, 0, 0};
            found++;
        }
    *count = (unsigned)found;
    return !found ? NOT_FOUND : found > room ? INSUFFICIENT : OK;
}

int nvmlEventSetCreate(void **set) { static int one; *set = &one; return OK; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(void *d, uint64_t kinds, void *set) { (void)kinds; (void)set; ENTER(d, Facts); ON_A_WHOLE_GPU(d); return OK; }
int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout_ms) {
    (void)set;
    ENTER(NULL, EventWait);
    for (unsigned waited = 0; waited < timeout_ms; waited += 100) { /* seldom: a real driver blocks, and costs nothing */
        for (unsigned i = 0; i < state->gpu_count; i++)
            if (xids_told[i] < __atomic_load_n(&state->gpus[i].xid_count, __ATOMIC_ACQUIRE)) {
                *event = (Event){&devices[i], 8, state->gpus[i].xids[xids_told[i]++ % XIDS], ~0u, ~0u};
                return OK;
            }
        nap(100000000);
    }
    return TIMEOUT;
}
