/* A slow disk and a clock that jumps, for processes that are started with this library before all others (LD_PRELOAD).

   $CHAOS_CONTROL is a file of two numbers of 64 bits, which may change while they run:
     microseconds that an operation below $CHAOS_PLACE waits, and seconds that the clock of the day is ahead.
   Clocks that only measure how long something takes are left as they are: those never jump. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none[2];
static volatile int64_t *control = none;
static const char *place;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("CHAOS_CONTROL");
    int number = file ? REAL(open)(file, O_RDONLY) : -1;
    place = getenv("CHAOS_PLACE");
    if (number < 0) return;
    void *found = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, number, 0);
    if (found != MAP_FAILED) control = found;
    close(number);
}

static void dawdle(const char *path) {
    if (control[0] && place && path && strstr(path, place)) usleep((useconds_t)control[0]);
}

#define OPENING(name)                                                                                                                \
    int name(const char *path, int flags, ...) {                                                                                     \
        va_list rest;                                                                                                                \
        va_start(rest, flags);                                                                                                       \
        mode_t mode = va_arg(rest, mode_t);                                                                                          \
        va_end(rest);                                                                                                                \
        dawdle(path);                                                                                                                \
        return REAL(name)(path, flags, mode);                                                                                        \
    }

OPENING(open)
OPENING(open64)

int rename(const char *before, const char *after) {
    dawdle(after);
    return REAL(rename)(before, after);
}

int mkdir(const char *path, mode_t mode) {
    dawdle(path);
    return REAL(mkdir)(path, mode);
}

int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = REAL(clock_gettime);
    int failed = real(which, at);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec += control[1];
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static int (*real)(struct timeval *restrict, void *restrict);
    if (!real) real = REAL(gettimeofday);
    int failed = real(at, zone);
    if (!failed) at->tv_sec += control[1];
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
