/*
 * The functions of lwio.h. Each checks that the process is not a forked child, in which a call of Go would not
 * return, and then calls its counterpart in Go, which writes the text of a failure to the memory of the thread.
 */
#define _GNU_SOURCE
#include "lwio.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_cgo_export.h"

/* The text of the last failure of a thread, or NULL before its first call. It is a pointer because memory for
 * thread-local variables of libraries that are loaded late is short. */
static __thread char *thread_text;
/* The key whose destructor frees the text when its thread ends. */
static pthread_key_t text_key;
static int have_text_key;
/* The text of threads for which there is no memory. */
static char spare_text[LWIO_TEXT_SIZE];

static void free_text(void *p)
{
	thread_text = NULL;
	free(p);
}

static char *own_text(void)
{
	char *p = thread_text;

	if (p)
		return p;
	if (!have_text_key || !(p = calloc(1, LWIO_TEXT_SIZE)))
		return spare_text;
	if (pthread_setspecific(text_key, p) != 0) {
		free(p);
		return spare_text;
	}
	return thread_text = p;
}

/* A page that the kernel zeroes in a forked child; NULL where the kernel cannot. */
static volatile char *alive;
static pid_t loader;

__attribute__((constructor)) static void mark_process(void)
{
	long size;
	void *page;

	have_text_key = pthread_key_create(&text_key, free_text) == 0;
	size = sysconf(_SC_PAGESIZE);
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	loader = getpid();
	if (page == MAP_FAILED)
		return;
	if (madvise(page, size, MADV_WIPEONFORK) != 0) {
		munmap(page, size);
		return;
	}
	alive = page;
	*alive = 1;
}

static int forked(void)
{
	if (alive ? *alive : getpid() == loader)
		return 0;
	strcpy(own_text(), "lwio: the process was forked after liblwio was loaded: "
		     "load it in the child, or start the child by exec");
	return 1;
}

/* The call of Go, and -EPERM in a forked child. */
#define GO(call)                         \
	do {                             \
		char *text = own_text(); \
		if (forked())            \
			return -EPERM;   \
		text[0] = 0;             \
		return call;             \
	} while (0)

int lwio_abi_version(void) { return LWIO_ABI_VERSION; }
const char *lwio_version(void) { return LWIO_VERSION; }
const char *lwio_error(void) { return own_text(); }

int lwio_dial(const char *url, const struct lwio_options *options, lwio_client *client)
{
	GO(lwioGoDial((char *)url, (struct lwio_options *)options, client, text));
}

int lwio_client_close(lwio_client client) { GO(lwioGoClientClose(client, text)); }

int lwio_transport(lwio_client client, char *buf, size_t size) { GO(lwioGoTransport(client, buf, size, text)); }

int lwio_max_in_flight(lwio_client client) { GO(lwioGoMaxInFlight(client, text)); }

int lwio_open(lwio_client client, const char *name, int flags, lwio_file *file)
{
	GO(lwioGoOpen(client, (char *)name, flags, file, text));
}

int lwio_close(lwio_file file) { GO(lwioGoClose(file, text)); }

int64_t lwio_pread(lwio_file file, void *buf, size_t len, int64_t off)
{
	GO(lwioGoPread(file, buf, len, off, text));
}

int64_t lwio_pwrite(lwio_file file, const void *buf, size_t len, int64_t off)
{
	GO(lwioGoPwrite(file, (void *)buf, len, off, text));
}

int64_t lwio_preadv(lwio_file file, const struct iovec *iov, int count, int64_t off)
{
	GO(lwioGoPreadv(file, (struct iovec *)iov, count, off, text));
}

int64_t lwio_pwritev(lwio_file file, const struct iovec *iov, int count, int64_t off)
{
	GO(lwioGoPwritev(file, (struct iovec *)iov, count, off, text));
}

int lwio_sync(lwio_file file) { GO(lwioGoSync(file, text)); }

int lwio_truncate(lwio_file file, int64_t size) { GO(lwioGoTruncate(file, size, text)); }

int lwio_fstat(lwio_file file, struct lwio_stat *st) { GO(lwioGoFstat(file, st, text)); }

int lwio_lock(lwio_file file, uint64_t off, uint64_t len, int flags, int64_t timeout_ms)
{
	GO(lwioGoLock(file, off, len, flags, timeout_ms, text));
}

int lwio_unlock(lwio_file file, uint64_t off, uint64_t len) { GO(lwioGoUnlock(file, off, len, text)); }

int lwio_stat(lwio_client client, const char *name, struct lwio_stat *st)
{
	GO(lwioGoStat(client, (char *)name, st, text));
}

int lwio_mkdir(lwio_client client, const char *name) { GO(lwioGoMkdir(client, (char *)name, text)); }

int lwio_unlink(lwio_client client, const char *name) { GO(lwioGoUnlink(client, (char *)name, text)); }

int lwio_rmdir(lwio_client client, const char *name) { GO(lwioGoRmdir(client, (char *)name, text)); }

int lwio_rename(lwio_client client, const char *from, const char *to)
{
	GO(lwioGoRename(client, (char *)from, (char *)to, text));
}

int lwio_opendir(lwio_client client, const char *name, lwio_dir *dir)
{
	GO(lwioGoOpendir(client, (char *)name, dir, text));
}

int lwio_readdir(lwio_dir dir, struct lwio_dirent *entries, int n) { GO(lwioGoReaddir(dir, entries, n, text)); }

int lwio_closedir(lwio_dir dir) { GO(lwioGoClosedir(dir, text)); }

int lwio_read_heads(lwio_client client, struct lwio_head *heads, int n)
{
	GO(lwioGoReadHeads(client, heads, n, text));
}

int lwio_batch_new(lwio_client client, int depth, int flags, lwio_batch *batch)
{
	GO(lwioGoBatchNew(client, depth, flags, batch, text));
}

int lwio_batch_submit(lwio_batch batch, const struct lwio_op *ops, int n)
{
	GO(lwioGoBatchSubmit(batch, (struct lwio_op *)ops, n, text));
}

int lwio_batch_reap(lwio_batch batch, struct lwio_completion *completions, int max, int min, int64_t timeout_ms)
{
	GO(lwioGoBatchReap(batch, completions, max, min, timeout_ms, text));
}

int lwio_batch_eventfd(lwio_batch batch) { GO(lwioGoBatchEventfd(batch, text)); }

int lwio_batch_close(lwio_batch batch) { GO(lwioGoBatchClose(batch, text)); }

int lwio_buffer_new(lwio_client client, size_t size, lwio_buffer *buffer, void **data)
{
	GO(lwioGoBufferNew(client, size, buffer, data, text));
}

int lwio_buffer_busy(lwio_buffer buffer) { GO(lwioGoBufferBusy(buffer, text)); }

int lwio_buffer_free(lwio_buffer buffer) { GO(lwioGoBufferFree(buffer, text)); }
