/* The few calls of NVIDIA's driver that a worker under MPS makes, without a GPU.

   A process that does not reach the daemon has the whole card, as with the real one; so
   has one whose limit names a GPU that it does not see. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define GIB (1024ul * 1024 * 1024)
#define TOTAL (16 * GIB)
#define SMS 80

static int sock = -1;

int fake_ask(const char *verb) {
    char line[256];
    ssize_t n;
    if (sock < 0) return 3;
    snprintf(line, sizeof line, "%s %d\n", verb, (int)getpid());
    if (write(sock, line, strlen(line)) < 0) return 806;
    n = read(sock, line, sizeof line - 1);
    if (n <= 0) return 806;
    line[n] = 0;
    return atoi(line);
}

int cuInit(unsigned flags) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
    int code;
    (void)flags;
    if (getenv("FAKE_CUDA_HANGS")) {
        FILE *fifo = fopen(getenv("FAKE_CUDA_HANGS"), "w");
        fprintf(fifo, "%d", (int)getpid());
        fclose(fifo);
        pause();
    }
    if (sock >= 0 || !pipe || getenv("FAKE_CUDA_DEAF")) return 0;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/control", pipe);
    sock = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(sock, (struct sockaddr *)&address, sizeof address)) {
        close(sock);
        sock = -1;
        return 0;
    }
    code = fake_ask("connect");
    if (code) {
        close(sock);
        sock = -1;
    }
    return code;
}

static size_t limit(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const char *said = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    size_t n = visible ? strlen(visible) : 0;
    if (sock < 0 || !said || !n || strchr(said, ',')) return TOTAL;
    if (strncmp(said, visible, n) || said[n] != '=') return TOTAL;
    return strtoul(said + n + 1, NULL, 10) * 1024 * 1024;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number ? 101 : 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    const char *part = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    (void)device;
    if (attribute == 133) {
        *value = sock >= 0;
    } else {
        *value = SMS;
        if (sock >= 0 && part && !getenv("FAKE_CUDA_ALL_SMS"))
            *value = SMS * atoi(part) / 100;
    }
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    *context = &sock;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return device; }

int cuCtxPushCurrent_v2(void *context) { return context != &sock; }

int cuCtxPopCurrent_v2(void **context) {
    *context = &sock;
    return 0;
}

int cuMemGetInfo_v2(size_t *available, size_t *total) {
    *available = limit();
    *total = TOTAL;
    return 0;
}

/* Checkpoints: the state of each process is a digit in a file of its number. */

static int move(int pid, int from, int to) {
    char path[512];
    const char *folder = getenv("FAKE_CUDA_CHECKPOINTS");
    FILE *file;
    int now = 0;
    if (!folder) return 801;
    snprintf(path, sizeof path, "%s/%d", folder, pid);
    file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%d", &now) != 1) now = 3;
        fclose(file);
    }
    if (from < 0) return now;
    if (now != from) return 401;
    file = fopen(path, "w");
    if (!file) return 999;
    fprintf(file, "%d", to);
    fclose(file);
    return 0;
}

int cuCheckpointProcessGetState(int pid, int *state) {
    *state = move(pid, -1, 0);
    return *state == 801 ? 801 : 0;
}

int cuCheckpointProcessLock(int pid, void *args) { return args ? move(pid, 0, 1) : 1; }

int cuCheckpointProcessCheckpoint(int pid, void *args) {
    return args ? 1 : move(pid, 1, 2);
}

int cuCheckpointProcessRestore(int pid, void *args) {
    return args ? 1 : move(pid, 2, 1);
}

int cuCheckpointProcessUnlock(int pid, void *args) {
    return args ? 1 : move(pid, 1, 0);
}

int cuGetErrorString(int code, const char **said) {
    *said = code == 801 ? "operation not supported" : "illegal state";
    return 0;
}
