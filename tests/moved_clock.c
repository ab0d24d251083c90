/* Preloaded: the time of day as a clock has it that is wrong, once it was moved. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset, epoch;
static double ppm;

void move_clock(long long by_ns, double gains_ppm, long long since_ns) {
  offset = by_ns;
  ppm = gains_ppm;
  epoch = since_ns;
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
