/* nfs_files URL LEN CALLS NAMES: the steps of `hanare bench mount` on a folder of an NFS server, by libnfs and so without a kernel's client.
 * A file of LEN bytes is written and synced, then read, in calls of 1 MiB; CALLS pages are written and read at random; NAMES files are made,
 * looked at, renamed and removed. Prints a figure and ns a line; fails where bytes are not what was written. */
#include "figures.h"
#include <fcntl.h>
#include <sys/time.h>
#include <nfsc/libnfs.h>

static struct nfs_context *nfs;

static void must(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, nfs_get_error(nfs));
    exit(1);
}

/* A call may be cut where the server takes less. */
static void move_all(int is_write, struct nfsfh *file, uint64_t at, char *bytes, size_t len)
{
    while (len) {
        int moved = is_write ? nfs_pwrite(nfs, file, at, len, bytes) : nfs_pread(nfs, file, at, len, bytes);
        must(moved ? moved : -1, is_write ? "write" : "read");
        at += moved, bytes += moved, len -= moved;
    }
}

static void figure(const char *what, double ns)
{
    printf("%s %.1f\n", what, ns);
}

int main(int argc, char **argv)
{
    enum { CALL = 1 << 20, PAGE = 4096 };
    static char bytes[CALL];
    if (argc < 5)
        return 2;
    uint64_t len = strtoull(argv[2], 0, 10), random = 88172645463325252u;
    long calls = atol(argv[3]), names = atol(argv[4]);
    nfs = nfs_init_context();
    struct nfs_url *url = nfs ? nfs_parse_url_dir(nfs, argv[1]) : NULL;
    if (!url)
        die("libnfs");
    must(nfs_mount(nfs, url->server, url->path), "mount");

    struct nfsfh *file;
    must(nfs_open2(nfs, "/file", O_RDWR | O_CREAT | O_TRUNC, 0644, &file), "open");
    for (size_t k = 0; k < CALL; k++)
        bytes[k] = (char)(k * 7);
    double begin = now_ns();
    for (uint64_t at = 0; at < len; at += CALL)
        move_all(1, file, at, bytes, CALL);
    must(nfs_fsync(nfs, file), "fsync");
    figure("write", now_ns() - begin);
    begin = now_ns();
    for (uint64_t at = 0; at < len; at += CALL)
        move_all(0, file, at, bytes, CALL);
    figure("read", now_ns() - begin);
    for (size_t k = 0; k < CALL; k++)
        if (bytes[k] != (char)(k * 7))
            return fprintf(stderr, "what was read is not what was written\n"), 1;
    for (int is_write = 1; is_write >= 0; is_write--) {
        begin = now_ns();
        for (long call = 0; call < calls; call++)
            move_all(is_write, file, next_random(&random) % (len / PAGE) * PAGE, bytes, PAGE);
        figure(is_write ? "write_page" : "read_page", (now_ns() - begin) / calls);
    }
    must(nfs_close(nfs, file), "close");
    must(nfs_unlink(nfs, "/file"), "unlink");
    begin = now_ns();
    for (long name = 0; name < names; name++) {
        char one[32], other[32];
        struct nfs_stat_64 found;
        snprintf(one, sizeof one, "/a%ld", name);
        snprintf(other, sizeof other, "/b%ld", name);
        must(nfs_creat(nfs, one, 0644, &file), "create");
        must(nfs_close(nfs, file), "close");
        must(nfs_stat64(nfs, one, &found), "stat");
        must(nfs_rename(nfs, one, other), "rename");
        must(nfs_unlink(nfs, other), "unlink");
    }
    figure("names", (now_ns() - begin) / names);
    nfs_destroy_url(url);
    nfs_destroy_context(nfs);
    return 0;
}
