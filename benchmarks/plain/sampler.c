/* What a C programmer would write instead of `gputel record`: the same readings, absolute deadlines, binary rows.
   sampler GPUS HZ SECONDS FILE prints what its loop cost as JSON. No plan, no watchdog, no recovery. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

typedef struct { uint32_t id, scope; int64_t stamp, latency; uint32_t type, status; uint64_t value; } Field;
typedef struct { uint32_t version, sensor; int32_t celsius; } Temperature;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } Memory;

#define FIELDS 9
#define READINGS 18
#define SECOND 1000000000LL

static const uint32_t ids[FIELDS] = {186, 185, 83, 82, 190, 198, 197, 139, 138};
static int (*fields)(void *, int, Field *);
static int (*temperature)(void *, Temperature *), (*utilization)(void *, uint32_t *), (*memory)(void *, Memory *);
static int (*clock_mhz)(void *, unsigned, uint32_t *), (*pstate)(void *, uint32_t *), (*reasons)(void *, uint64_t *);
static int (*fan)(void *, uint32_t *);

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void read_gpu(void *gpu, Field *batch, int with_fan, int64_t *row) {
    Temperature t = {sizeof t | 1 << 24, 0, 0};
    Memory m = {.version = sizeof m | 2 << 24};
    uint32_t busy[2] = {0}, sm = 0, mem = 0, p = 0, speed = 0;
    uint64_t why = 0;
    int status = fields(gpu, FIELDS, batch);
    for (int i = 0; i < FIELDS; i++) {
        uint64_t value = batch[i].type == 1 ? (uint32_t)batch[i].value : batch[i].value;
        row[i] = status || batch[i].status ? INT64_MIN : (int64_t)value;
    }
    row[9] = temperature(gpu, &t) ? INT64_MIN : t.celsius;
    status = utilization(gpu, busy);
    row[10] = status ? INT64_MIN : busy[0];
    row[11] = status ? INT64_MIN : busy[1];
    row[12] = memory(gpu, &m) ? INT64_MIN : (int64_t)m.used;
    row[13] = clock_mhz(gpu, 1, &sm) ? INT64_MIN : sm;
    row[14] = clock_mhz(gpu, 2, &mem) ? INT64_MIN : mem;
    row[15] = pstate(gpu, &p) ? INT64_MIN : p;
    row[16] = reasons(gpu, &why) ? INT64_MIN : (int64_t)why;
    if (with_fan) row[17] = fan(gpu, &speed) ? INT64_MIN : speed;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double cpu_us(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static long resident_kib(void) {
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
    if (file) fclose(file);
    return kib;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int gpus = atoi(argv[1]), hz = atoi(argv[2]);
    int64_t period = SECOND / hz, ticks = (int64_t)(atof(argv[3]) * hz), late = 0;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return 1;
    int (*start)(void) = dlsym(library, "nvmlInit_v2");
    int (*handle)(unsigned, void **) = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    fields = dlsym(library, "nvmlDeviceGetFieldValues");
    temperature = dlsym(library, "nvmlDeviceGetTemperatureV");
    utilization = dlsym(library, "nvmlDeviceGetUtilizationRates");
    memory = dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
    clock_mhz = dlsym(library, "nvmlDeviceGetClockInfo");
    pstate = dlsym(library, "nvmlDeviceGetPerformanceState");
    reasons = dlsym(library, "nvmlDeviceGetCurrentClocksEventReasons");
    fan = dlsym(library, "nvmlDeviceGetFanSpeed");
    if (start()) return 1;

    void *devices[16];
    static Field batches[16][FIELDS];
    for (int g = 0; g < gpus; g++) {
        handle(g, &devices[g]);
        for (int i = 0; i < FIELDS; i++) batches[g][i] = (Field){.id = ids[i], .scope = ids[i] < 140 && ids[i] > 100 ? ~0u : 0};
    }
    prctl(PR_SET_TIMERSLACK, 1);
    struct sched_param priority = {1};
    sched_setscheduler(0, SCHED_FIFO, &priority);
    FILE *out = fopen(argv[4], "wb");
    int64_t *lateness = malloc(ticks * sizeof *lateness), row[2 + 16 * READINGS];
    memset(row, 0, sizeof row);

    double cpu = cpu_us();
    int64_t began = now_ns(), deadline = began;
    for (int64_t tick = 0; tick < ticks; tick++) {
        deadline += period;
        struct timespec until = {deadline / SECOND, deadline % SECOND};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        int64_t now = now_ns();
        lateness[tick] = now - deadline;
        late += now - deadline > period;
        row[0] = deadline;
        row[1] = now;
        for (int g = 0; g < gpus; g++) read_gpu(devices[g], batches[g], tick % hz == 0, row + 2 + g * READINGS);
        fwrite(row, sizeof *row, 2 + gpus * READINGS, out);
    }
    int64_t ended = now_ns();
    cpu = cpu_us() - cpu;
    fclose(out);
    qsort(lateness, ticks, sizeof *lateness, by_size);
    printf("{\"ticks\": %ld, \"hz\": %.3f, \"cpu_us\": %.3f, \"late\": %ld, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"max_us\": %.1f, \"resident_mib\": %.1f}\n",
           (long)ticks, ticks * 1e9 / (double)(ended - began), cpu / ticks, (long)late, lateness[ticks / 2] / 1e3,
           lateness[ticks * 99 / 100] / 1e3, lateness[ticks - 1] / 1e3, resident_kib() / 1024.0);
    return 0;
}
