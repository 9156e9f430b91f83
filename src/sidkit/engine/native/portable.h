/* Old names of what glibc has renamed, so that a library compiled on a new Linux loads on one of the last ten years.
 *
 * The functions are the same: those of threads were renamed when they moved from libpthread to libc. Without these
 * lines a wheel would need glibc 2.34.
 */
#if defined(PORTABLE) && defined(__GLIBC__)
#if defined(__x86_64__)
#define OLD "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLD "GLIBC_2.17"
#endif
#endif

#ifdef OLD
__asm__(".symver pthread_create,pthread_create@" OLD);
__asm__(".symver pthread_join,pthread_join@" OLD);
#endif
