#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset, epoch;
static double ppm;

__attribute__((constructor)) static void settings(void) {
  const char *text;
  if ((text = getenv("MOVED_BY_NS"))) offset = atoll(text);
  if ((text = getenv("MOVED_SINCE_NS"))) epoch = atoll(text);
  if ((text = getenv("MOVED_PPM"))) ppm = atof(text);
}

static long long moved(void) {
  struct timespec real;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
  long long now = real.tv_sec * 1000000000LL + real.tv_nsec;
  return now + offset + (long long)((double)(now - epoch) * ppm * 1e-6);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
    return syscall(SYS_clock_gettime, clock, at);
  long long now = moved();
  at->tv_sec = now / 1000000000LL;
  at->tv_nsec = now % 1000000000LL;
  return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
  long long now = moved();
  (void)zone;
  at->tv_sec = now / 1000000000LL;
  at->tv_usec = now % 1000000000LL / 1000;
  return 0;
}

time_t time(time_t *at) {
  time_t now = moved() / 1000000000LL;
  if (at) *at = now;
  return now;
}
