/* What a C programmer would write for one format: nanochat's training lines -> columns of doubles.

   cc -O2 -o plain_parser plain_parser.c; plain_parser train.log
   It maps the file, finds line ends with memchr, walks over the literals and reads each decimal digit by digit. It
   knows nothing of other formats, of broken lines, or of rounding: mantissa times a power of ten is one bit off at
   times. It prints the number of rows, the sum of the losses and the CPU seconds. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

enum { STEP, TOTAL, PERCENT, LOSS, LRM, DT, TOKENS, MFU, EPOCH, TIME, ETA, FIELDS };

static const char *const BEFORE[FIELDS] = {
    "step ", "/", " (", "%) | loss: ", " | lrm: ", " | dt: ", "ms | tok/sec: ",
    " | bf16_mfu: ", " | epoch: ", " | total time: ", "m | eta: ",
};

static double *columns[FIELDS];
static size_t rows, room;

static const char *number(const char *at, const char *end, double *value)
{
    static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
    long mantissa = 0;
    int decimals = -1;
    const char *start = at;
    for (; at < end; at++) {
        if (*at >= '0' && *at <= '9') {
            mantissa = mantissa * 10 + (*at - '0');
            decimals += decimals >= 0;
        } else if (*at == '.' && decimals < 0) {
            decimals = 0;
        } else if (*at != ',') {
            break;
        }
    }
    if (at == start || decimals > 12)
        return NULL;
    *value = decimals > 0 ? (double)mantissa / powers[decimals] : (double)mantissa;
    return at;
}

static void line(const char *at, const char *end)
{
    double values[FIELDS];
    for (int field = 0; field < FIELDS; field++) {
        size_t length = strlen(BEFORE[field]);
        if ((size_t)(end - at) < length || memcmp(at, BEFORE[field], length) != 0)
            return;
        at = number(at + length, end, &values[field]);
        if (!at)
            return;
    }
    if (rows == room) {
        room = room ? room * 2 : 1 << 16;
        for (int field = 0; field < FIELDS; field++)
            columns[field] = realloc(columns[field], room * sizeof(double));
    }
    for (int field = 0; field < FIELDS; field++)
        columns[field][rows] = values[field];
    rows++;
}

int main(int argc, char **argv)
{
    struct timespec used;
    double losses = 0;
    for (int i = 1; i < argc; i++) {
        struct stat facts;
        int file = open(argv[i], O_RDONLY);
        if (file < 0 || fstat(file, &facts) < 0)
            return 1;
        const char *data = mmap(NULL, facts.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
        if (data == MAP_FAILED)
            return 1;
        const char *end = data + facts.st_size;
        for (const char *at = data; at < end;) {
            const char *feed = memchr(at, '\n', end - at);
            line(at, feed ? feed : end);
            at = feed ? feed + 1 : end;
        }
        munmap((void *)data, facts.st_size);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    for (size_t row = 0; row < rows; row++)
        losses += columns[LOSS][row];
    printf("%zu %.6f %.6f\n", rows, losses, used.tv_sec + used.tv_nsec / 1e9);
    return 0;
}
