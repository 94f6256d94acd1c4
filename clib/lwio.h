/*
 * liblwio: files of an LWIO server for programs in C. lwio(3) is the manual.
 *
 * Handles. A client, a file, a directory, a batch and a buffer are numbers. 0 is never valid, a number is not
 * used twice, and a number that is not valid, or of another kind, gives -EBADF. Each handle is released by its
 * own close function, also when that function reports an error.
 *
 * Errors. A function that fails returns a negative number of errno.h, and lwio_error returns its text. errno
 * itself is not changed.
 *
 * Threads. Any thread may call any function with any handle, except that a batch without LWIO_BATCH_EVENTFD is
 * for one thread at a time; a call beside another one then fails with -EBUSY.
 *
 * Memory. The library reads and writes the memory of an argument until the call returns, and keeps no pointer
 * to it, with one exception: the memory of an operation of a batch belongs to the batch until lwio_batch_reap
 * has returned its completion or lwio_batch_close has returned. Memory that the library returns is of a
 * buffer (until lwio_buffer_free) or of a directory (until lwio_closedir). Nothing is passed to free(3).
 *
 * Time. Every call returns: within the time-out of its argument, or of the client (struct lwio_options).
 *
 * fork(2). The library runs threads, which a forked child does not have. In the child every call fails with
 * -EPERM; a program that needs files there calls exec, or loads the library after the fork.
 */
#ifndef LWIO_H
#define LWIO_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface; lwio_abi_version returns that of the library. */
#define LWIO_ABI_VERSION 1

/* A change was done or not, and the library cannot know: its answer was lost. */
#define LWIO_EUNCERTAIN EREMOTEIO

typedef uint64_t lwio_client;
typedef uint64_t lwio_file;
typedef uint64_t lwio_dir;
typedef uint64_t lwio_batch;
typedef uint64_t lwio_buffer;

/* Settings of lwio_dial. Zero and NULL are the defaults. The values of the URL, if present, replace user,
 * password, connections and app_instance. The strings may be freed after the call. */
struct lwio_options {
	size_t size;              /* sizeof(struct lwio_options), for later versions */
	const char *user;
	const char *password;
	const char *domain;
	const char *app_instance; /* name of the running program: its files of an earlier run are closed */
	int64_t timeout_ms;       /* of each call; 0 is 30 s */
	int64_t reconnect_ms;     /* how long calls wait for a lost connection; 0 is 5 s, below 0 never */
	int connections;          /* RDMA connections, 1 to 8; 0 is 1 */
	int require_rdma;         /* not 0: fail without RDMA, instead of using SMB alone */
	int require_encryption;   /* not 0: encrypt SMB, and seal RDMA that is not confidential */
	int reserved;             /* 0 */
};

/* A file or directory. Times are nanoseconds since 1970. */
struct lwio_stat {
	uint64_t size;       /* bytes */
	uint64_t allocated;  /* bytes that the file occupies */
	uint64_t id;         /* of the file at the server, 0 if unknown */
	int64_t mtime_ns, atime_ns, ctime_ns, btime_ns;
	uint32_t mode;       /* S_IFREG or S_IFDIR, and permissions derived from the attributes */
	uint32_t attributes; /* of SMB */
};

/* An entry of a directory. name belongs to the directory until lwio_closedir. */
struct lwio_dirent {
	const char *name;
	struct lwio_stat stat;
};

/* A whole small file, or the beginning of a file, for lwio_read_heads. */
struct lwio_head {
	const char *name;      /* in: of the file */
	void *buf;             /* in: memory for the first bytes */
	size_t size;           /* in: bytes of buf */
	int64_t result;        /* out: bytes read, or a negative errno */
	struct lwio_stat stat; /* out, if result is not negative */
};

/* kind of struct lwio_op */
#define LWIO_OP_READ 1
#define LWIO_OP_WRITE 2

/* An operation of a batch. */
struct lwio_op {
	uint32_t kind;
	uint32_t reserved; /* 0 */
	lwio_file file;
	void *buf;         /* belongs to the batch until the completion is reaped */
	uint64_t len;      /* bytes */
	int64_t off;       /* byte offset in the file */
	uint64_t tag;      /* of the program, returned in the completion */
};

/* The result of an operation of a batch. */
struct lwio_completion {
	uint64_t tag;
	int64_t result; /* bytes read or written, fewer than asked for only at the end of the file; or a negative errno */
	uint64_t done;  /* bytes from the beginning that are certainly read or written, also after an error */
};

/* flags of lwio_batch_new */
#define LWIO_BATCH_EVENTFD 1 /* an eventfd reports completions, and any thread may use the batch */

/* flags of lwio_lock */
#define LWIO_LOCK_EXCLUSIVE 0
#define LWIO_LOCK_SHARED 1

/* The version of the interface of the library, and of the library as text. Valid after fork, too. */
int lwio_abi_version(void);
const char *lwio_version(void);

/* The text of the last failure in this thread, "" if there was none. It belongs to the thread until its next
 * call of the library. */
const char *lwio_error(void);

/* Connects to lwio://user:password@host:port/share?... . options may be NULL. */
int lwio_dial(const char *url, const struct lwio_options *options, lwio_client *client);
/* Ends the session. Files and batches of the client fail after that; each still needs its close. */
int lwio_client_close(lwio_client client);
/* Writes how data moves now, and why, to text as snprintf does, and returns the length of the whole text. */
int lwio_transport(lwio_client client, char *text, size_t size);
/* The number of operations that are worth having in flight. */
int lwio_max_in_flight(lwio_client client);

/* Opens a file. flags: O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL, O_TRUNC, O_SYNC, O_DSYNC, and
 * O_DIRECT for a file that the server does not cache. The server chooses the permissions of a new file.
 * O_APPEND gives -EOPNOTSUPP. */
int lwio_open(lwio_client client, const char *name, int flags, lwio_file *file);
int lwio_close(lwio_file file);

/* Reads fill the memory from byte offset off and return the number of bytes: fewer than asked for only at
 * the end of the file, 0 behind it. Writes return all bytes or an error. */
int64_t lwio_pread(lwio_file file, void *buf, size_t len, int64_t off);
int64_t lwio_pwrite(lwio_file file, const void *buf, size_t len, int64_t off);
int64_t lwio_preadv(lwio_file file, const struct iovec *iov, int count, int64_t off);
int64_t lwio_pwritev(lwio_file file, const struct iovec *iov, int count, int64_t off);

/* Waits until earlier writes are on stable storage. */
int lwio_sync(lwio_file file);
int lwio_truncate(lwio_file file, int64_t size);
int lwio_fstat(lwio_file file, struct lwio_stat *st);

/* Locks len bytes from off against every other open of the file, reads and writes included. timeout_ms: 0
 * fails with -EAGAIN at once, below 0 waits as long as the time-out of the client. */
int lwio_lock(lwio_file file, uint64_t off, uint64_t len, int flags, int64_t timeout_ms);
int lwio_unlock(lwio_file file, uint64_t off, uint64_t len);

int lwio_stat(lwio_client client, const char *name, struct lwio_stat *st);
int lwio_mkdir(lwio_client client, const char *name);
/* unlink removes a file, rmdir an empty directory. Each asks for the kind first. */
int lwio_unlink(lwio_client client, const char *name);
int lwio_rmdir(lwio_client client, const char *name);
/* Replaces an existing file, unless that is open. */
int lwio_rename(lwio_client client, const char *from, const char *to);

/* Lists a directory, sorted by name. readdir returns the number of entries, at most n, and 0 at the end. */
int lwio_opendir(lwio_client client, const char *name, lwio_dir *dir);
int lwio_readdir(lwio_dir dir, struct lwio_dirent *entries, int n);
int lwio_closedir(lwio_dir dir);

/* Reads the beginnings of n files, many at a time; up to 64 KiB take one round trip each. It returns the
 * number of files that failed; lwio_error has the text of the first of them. */
int lwio_read_heads(lwio_client client, struct lwio_head *heads, int n);

/* A batch of up to depth operations at a time. */
int lwio_batch_new(lwio_client client, int depth, int flags, lwio_batch *batch);
/* Starts operations and returns how many were taken: fewer than n if the batch is full, -EAGAIN for none. ops
 * may be reused at once. An operation that is not valid is reported by its completion. */
int lwio_batch_submit(lwio_batch batch, const struct lwio_op *ops, int n);
/* Waits for at least min completions, or for all if there are fewer, and returns at most max. timeout_ms: 0
 * does not wait, below 0 waits as long as the operations take. -ETIMEDOUT if there are none at the end of the
 * time. If completions failed, lwio_error has the text of the last of them. */
int lwio_batch_reap(lwio_batch batch, struct lwio_completion *completions, int max, int min, int64_t timeout_ms);
/* The eventfd, which is readable while there are completions. It belongs to the batch: wait for it, and do
 * not read, write or close it. */
int lwio_batch_eventfd(lwio_batch batch);
/* Gives up operations in flight and takes their memory back. The outcome of writes in flight is unknown. */
int lwio_batch_close(lwio_batch batch);

/* A buffer is memory of size bytes, zeroed, page-aligned and registered once, which the server may read and
 * write until lwio_buffer_free; reads into and writes from any part of it are not copied. */
int lwio_buffer_new(lwio_client client, size_t size, lwio_buffer *buffer, void **data);
/* 1 if the server may still use the memory after a failed operation, else 0. */
int lwio_buffer_busy(lwio_buffer buffer);
int lwio_buffer_free(lwio_buffer buffer);

#ifdef __cplusplus
}
#endif

#endif
