/* Makes system calls under SQLite fail on request. Preloaded into the server by the tests.
 *
 * ATTACHE_TEST_FAULTS names a file. While it is there, its first word is a kind of call, "write" or "sync", and its second word a part
 * of a path: such calls on such files fail with EIO. Without the file every call goes through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(const char *kind, int fd)
{
    const char *control = getenv("ATTACHE_TEST_FAULTS");
    char text[256], asked[32], part[192], link[64], path[4096];
    ssize_t length;
    int file, before = errno, hit = 0;

    if (control == NULL || (file = open(control, O_RDONLY | O_CLOEXEC)) < 0) {
        errno = before;
        return 0;
    }
    length = read(file, text, sizeof text - 1);
    close(file);
    if (length > 0) {
        text[length] = '\0';
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (sscanf(text, "%31s %191s", asked, part) == 2 && strcmp(asked, kind) == 0 &&
            (length = readlink(link, path, sizeof path - 1)) > 0) {
            path[length] = '\0';
            hit = strstr(path, part) != NULL;
        }
    }
    errno = hit ? EIO : before;
    return hit;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (real == NULL) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t count)
{
    REAL(write);
    return fails("write", fd) ? -1 : real(fd, bytes, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    REAL(pwrite);
    return fails("write", fd) ? -1 : real(fd, bytes, count, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset)
{
    REAL(pwrite64);
    return fails("write", fd) ? -1 : real(fd, bytes, count, offset);
}

int fsync(int fd)
{
    REAL(fsync);
    return fails("sync", fd) ? -1 : real(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    return fails("sync", fd) ? -1 : real(fd);
}
