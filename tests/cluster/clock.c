/* Shifts the wall clock of the program into which it is loaded by ATTACHE_TEST_CLOCK seconds; the monotonic clock stays. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t shift(void)
{
    const char *seconds = getenv("ATTACHE_TEST_CLOCK");

    return seconds == NULL ? 0 : (time_t)atol(seconds);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    int result;

    if (real == NULL)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result)
{
    struct timespec precise;

    clock_gettime(CLOCK_REALTIME, &precise);
    if (result != NULL)
        *result = precise.tv_sec;
    return precise.tv_sec;
}
