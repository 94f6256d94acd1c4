/* The tests of liblwio that run against a server. c_test.go compiles and starts them:
 *
 *	suite NAME URL [PROVIDER]
 *
 * A failed check prints its line and ends the program with status 1. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <lwio.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                    \
	do {                                                                                                \
		if (!(condition)) {                                                                         \
			fprintf(stderr, "line %d: %s is false: %s\n", __LINE__, #condition, lwio_error());  \
			exit(1);                                                                            \
		}                                                                                           \
	} while (0)

/* FAILS checks that a call fails with an errno and a text that contains part. */
#define FAILS(call, number, part) fails(__LINE__, #call, (int64_t)(call), number, part)

static void fails(int line, const char *call, int64_t result, int number, const char *part)
{
	if (result != -number || strstr(lwio_error(), part) == NULL) {
		fprintf(stderr, "line %d: %s is %lld (%s), want %d with \"%s\"\n", line, call, (long long)result,
			lwio_error(), -number, part);
		exit(1);
	}
}

static const char *url;

static lwio_client dial(void)
{
	lwio_client c = 0;

	CHECK(lwio_dial(url, NULL, &c) == 0);
	CHECK(c != 0);
	return c;
}

static lwio_file file(lwio_client c, const char *name, int flags)
{
	lwio_file f = 0;

	CHECK(lwio_open(c, name, flags, &f) == 0);
	return f;
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (unsigned char)((i * 31 + seed * 17) ^ (i >> 8));
}

static void test_basic(const char *provider)
{
	enum { size = 300000 };
	static unsigned char data[size], back[size];
	lwio_client c = dial();
	lwio_file f = file(c, "basic", O_RDWR | O_CREAT | O_TRUNC);
	lwio_dir d = 0;
	struct lwio_stat st;
	struct lwio_dirent entries[3];
	struct iovec iov[3];
	char text[400];
	int n, found = 0;

	CHECK(lwio_abi_version() == LWIO_ABI_VERSION);
	CHECK(strlen(lwio_version()) > 0);
	CHECK(lwio_transport(c, text, sizeof text) == (int)strlen(text));
	CHECK(strstr(text, provider) != NULL);
	CHECK(lwio_transport(c, NULL, 0) > 4);
	CHECK(lwio_transport(c, text, 4) > 4 && strlen(text) == 3);
	CHECK(lwio_max_in_flight(c) > 0);

	fill(data, size, 1);
	CHECK(lwio_pwrite(f, data, size, 0) == size);
	CHECK(lwio_pread(f, back, size, 0) == size && memcmp(data, back, size) == 0);
	CHECK(lwio_pread(f, back, 100, size - 40) == 40);
	CHECK(lwio_pread(f, back, 100, size) == 0);
	CHECK(lwio_pread(f, back, 100, size + 1000) == 0);
	CHECK(lwio_pread(f, NULL, 0, 0) == 0);

	iov[0].iov_base = back, iov[0].iov_len = 1000;
	iov[1].iov_base = back + 2000, iov[1].iov_len = 0;
	iov[2].iov_base = back + 1000, iov[2].iov_len = 5000;
	memset(back, 0, size);
	CHECK(lwio_preadv(f, iov, 3, 10) == 6000 && memcmp(back, data + 10, 6000) == 0);
	fill(back, 6000, 2);
	CHECK(lwio_pwritev(f, iov, 3, 100) == 6000);
	CHECK(lwio_pread(f, data, 6000, 100) == 6000 && memcmp(back, data, 6000) == 0);
	CHECK(lwio_preadv(f, NULL, 0, 0) == 0);

	CHECK(lwio_sync(f) == 0);
	CHECK(lwio_truncate(f, 12345) == 0);
	CHECK(lwio_fstat(f, &st) == 0 && st.size == 12345 && (st.mode & S_IFMT) == S_IFREG);
	CHECK(st.mtime_ns > 1600000000LL * 1000000000LL);
	CHECK(lwio_lock(f, 0, 100, LWIO_LOCK_EXCLUSIVE, -1) == 0);
	CHECK(lwio_unlock(f, 0, 100) == 0);
	CHECK(lwio_lock(f, 0, 100, LWIO_LOCK_SHARED, 0) == 0);
	CHECK(lwio_close(f) == 0);

	CHECK(lwio_mkdir(c, "dir") == 0);
	CHECK(lwio_rename(c, "basic", "dir/moved") == 0);
	CHECK(lwio_close(file(c, "dir/a", O_WRONLY | O_CREAT | O_EXCL | O_SYNC)) == 0);
	CHECK(lwio_close(file(c, "dir/b", O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC)) == 0);
	CHECK(lwio_mkdir(c, "dir/c") == 0);
	CHECK(lwio_stat(c, "dir", &st) == 0 && (st.mode & S_IFMT) == S_IFDIR);
	CHECK(lwio_opendir(c, "dir", &d) == 0);
	while ((n = lwio_readdir(d, entries, 3)) > 0) {
		int i;

		for (i = 0; i < n; i++, found++) {
			static const char *const names[] = {"a", "b", "c", "moved"};

			CHECK(found < 4 && strcmp(entries[i].name, names[found]) == 0);
			CHECK(((entries[i].stat.mode & S_IFMT) == S_IFDIR) == (found == 2));
			CHECK(found != 3 || entries[i].stat.size == 12345);
		}
	}
	CHECK(n == 0 && found == 4);
	CHECK(lwio_closedir(d) == 0);
	CHECK(lwio_unlink(c, "dir/a") == 0 && lwio_unlink(c, "dir/b") == 0 && lwio_unlink(c, "dir/moved") == 0);
	CHECK(lwio_rmdir(c, "dir/c") == 0 && lwio_rmdir(c, "dir") == 0);
	CHECK(lwio_client_close(c) == 0);
}

static void test_options(const char *provider)
{
	struct lwio_options o;
	lwio_client c = 0;

	(void)provider;
	memset(&o, 0, sizeof o);
	FAILS(lwio_dial(url, &o, &c), EINVAL, "sizeof(struct lwio_options)");
	o.size = sizeof o;
	o.reserved = 1;
	FAILS(lwio_dial(url, &o, &c), EINVAL, "reserved");
	o.reserved = 0;
	o.timeout_ms = 20000;
	o.reconnect_ms = 1000;
	o.connections = 2;
	o.require_rdma = 1;
	CHECK(lwio_dial(url, &o, &c) == 0);
	CHECK(lwio_client_close(c) == 0);
}

static void test_errors(const char *provider)
{
	lwio_client c = dial(), other;
	lwio_file f = file(c, "errors", O_RDWR | O_CREAT | O_TRUNC), g;
	lwio_file readonly = file(c, "errors", O_RDONLY);
	lwio_dir d = 0;
	lwio_batch b = 0;
	lwio_buffer buffer = 0;
	struct lwio_stat st;
	struct lwio_dirent entry;
	struct lwio_completion done;
	struct lwio_op op;
	struct iovec iov;
	void *data;
	char p[100];
	uint64_t bad[3], i;

	(void)provider;
	memset(p, 1, sizeof p);
	memset(&op, 0, sizeof op);
	FAILS(lwio_dial(NULL, NULL, &other), EINVAL, "NULL");
	FAILS(lwio_dial(url, NULL, NULL), EINVAL, "NULL");
	FAILS(lwio_dial("http://x/y", NULL, &other), EINVAL, "lwio: ");
	FAILS(lwio_dial("lwio://u:p@127.0.0.1:1/s", NULL, &other), ECONNREFUSED, "refused");

	/* Handles that never were, that are of another kind, and that are closed. */
	bad[0] = 0, bad[1] = 1ULL << 60, bad[2] = c;
	for (i = 0; i < 3; i++) {
		FAILS(lwio_pread(bad[i], p, 1, 0), EBADF, "handle");
		FAILS(lwio_pwrite(bad[i], p, 1, 0), EBADF, "handle");
		FAILS(lwio_preadv(bad[i], NULL, 0, 0), EBADF, "handle");
		FAILS(lwio_pwritev(bad[i], NULL, 0, 0), EBADF, "handle");
		FAILS(lwio_sync(bad[i]), EBADF, "handle");
		FAILS(lwio_truncate(bad[i], 0), EBADF, "handle");
		FAILS(lwio_fstat(bad[i], &st), EBADF, "handle");
		FAILS(lwio_lock(bad[i], 0, 1, 0, 0), EBADF, "handle");
		FAILS(lwio_unlock(bad[i], 0, 1), EBADF, "handle");
		FAILS(lwio_close(bad[i]), EBADF, "handle");
		FAILS(lwio_readdir(bad[i], &entry, 1), EBADF, "handle");
		FAILS(lwio_closedir(bad[i]), EBADF, "handle");
		FAILS(lwio_batch_submit(bad[i], &op, 1), EBADF, "handle");
		FAILS(lwio_batch_reap(bad[i], &done, 1, 1, 0), EBADF, "handle");
		FAILS(lwio_batch_eventfd(bad[i]), EBADF, "handle");
		FAILS(lwio_batch_close(bad[i]), EBADF, "handle");
		FAILS(lwio_buffer_busy(bad[i]), EBADF, "handle");
		FAILS(lwio_buffer_free(bad[i]), EBADF, "handle");
	}
	bad[2] = f;
	for (i = 0; i < 3; i++) {
		FAILS(lwio_client_close(bad[i]), EBADF, "handle");
		FAILS(lwio_transport(bad[i], p, 1), EBADF, "handle");
		FAILS(lwio_max_in_flight(bad[i]), EBADF, "handle");
		FAILS(lwio_open(bad[i], "x", O_RDONLY, &g), EBADF, "handle");
		FAILS(lwio_stat(bad[i], "x", &st), EBADF, "handle");
		FAILS(lwio_mkdir(bad[i], "x"), EBADF, "handle");
		FAILS(lwio_unlink(bad[i], "x"), EBADF, "handle");
		FAILS(lwio_rmdir(bad[i], "x"), EBADF, "handle");
		FAILS(lwio_rename(bad[i], "x", "y"), EBADF, "handle");
		FAILS(lwio_opendir(bad[i], "x", &d), EBADF, "handle");
		FAILS(lwio_read_heads(bad[i], NULL, 0), EBADF, "handle");
		FAILS(lwio_batch_new(bad[i], 1, 0, &b), EBADF, "handle");
		FAILS(lwio_buffer_new(bad[i], 1, &buffer, &data), EBADF, "handle");
	}

	/* Arguments. */
	FAILS(lwio_pread(f, NULL, 1, 0), EINVAL, "NULL");
	FAILS(lwio_pread(f, p, 1, -1), EINVAL, "offset");
	FAILS(lwio_pwrite(f, p, (size_t)-1, 0), EINVAL, "length");
	FAILS(lwio_preadv(f, NULL, 1, 0), EINVAL, "segments");
	FAILS(lwio_preadv(f, &iov, -1, 0), EINVAL, "segments");
	FAILS(lwio_pwritev(f, &iov, 1025, 0), EINVAL, "segments");
	iov.iov_base = NULL, iov.iov_len = 5;
	FAILS(lwio_pwritev(f, &iov, 1, 0), EINVAL, "NULL");
	FAILS(lwio_truncate(f, -1), EINVAL, "size");
	FAILS(lwio_fstat(f, NULL), EINVAL, "NULL");
	FAILS(lwio_lock(f, 0, 1, 4, 0), EINVAL, "flag");
	FAILS(lwio_lock(f, ~0ULL, 2, 0, 0), EINVAL, "lock");
	FAILS(lwio_unlock(f, 0, 1), EINVAL, "unlock");
	FAILS(lwio_open(c, NULL, O_RDONLY, &g), EINVAL, "NULL");
	FAILS(lwio_open(c, "x", O_RDONLY, NULL), EINVAL, "NULL");
	FAILS(lwio_open(c, "x", 3, &g), EINVAL, "flag");
	FAILS(lwio_open(c, "x", O_PATH, &g), EINVAL, "flag");
	FAILS(lwio_open(c, "x", O_WRONLY | O_CREAT | O_APPEND, &g), EOPNOTSUPP, "");
	FAILS(lwio_transport(c, NULL, 5), EINVAL, "NULL");
	FAILS(lwio_stat(c, "errors", NULL), EINVAL, "NULL");
	FAILS(lwio_stat(c, NULL, &st), EINVAL, "NULL");
	FAILS(lwio_mkdir(c, NULL), EINVAL, "NULL");
	FAILS(lwio_rename(c, "errors", NULL), EINVAL, "NULL");
	FAILS(lwio_opendir(c, ".", NULL), EINVAL, "NULL");
	FAILS(lwio_read_heads(c, NULL, 1), EINVAL, "NULL");
	FAILS(lwio_read_heads(c, NULL, -1), EINVAL, "below 0");
	FAILS(lwio_batch_new(c, 0, 0, &b), EINVAL, "depth");
	FAILS(lwio_batch_new(c, 1, 8, &b), EINVAL, "flag");
	FAILS(lwio_batch_new(c, 1, 0, NULL), EINVAL, "NULL");
	FAILS(lwio_buffer_new(c, 0, &buffer, &data), EINVAL, "size");
	FAILS(lwio_buffer_new(c, (size_t)-1, &buffer, &data), EINVAL, "size");
	FAILS(lwio_buffer_new(c, 1, NULL, &data), EINVAL, "NULL");

	/* Refusals of the server. */
	FAILS(lwio_open(c, "missing", O_RDONLY, &g), ENOENT, "open missing");
	FAILS(lwio_open(c, "", O_RDONLY, &g), ENOENT, "empty");
	FAILS(lwio_open(c, "errors", O_RDWR | O_CREAT | O_EXCL, &g), EEXIST, "exists");
	FAILS(lwio_open(c, "errors/below", O_RDONLY, &g), ENOENT, "errors/below");
	FAILS(lwio_pwrite(readonly, p, 1, 0), EACCES, "permission");
	CHECK(lwio_mkdir(c, "edir") == 0);
	FAILS(lwio_mkdir(c, "edir"), EEXIST, "exists");
	FAILS(lwio_open(c, "edir", O_RDWR, &g), EISDIR, "directory");
	FAILS(lwio_unlink(c, "edir"), EISDIR, "unlink edir");
	FAILS(lwio_rmdir(c, "errors"), ENOTDIR, "rmdir errors");
	CHECK(lwio_close(file(c, "edir/x", O_WRONLY | O_CREAT)) == 0);
	FAILS(lwio_rmdir(c, "edir"), ENOTEMPTY, "not empty");
	CHECK(lwio_unlink(c, "edir/x") == 0 && lwio_rmdir(c, "edir") == 0);
	FAILS(lwio_unlink(c, "missing"), ENOENT, "missing");
	FAILS(lwio_rename(c, "missing", "y"), ENOENT, "missing");
	FAILS(lwio_stat(c, "missing", &st), ENOENT, "missing");
	FAILS(lwio_opendir(c, "missing", &d), ENOENT, "missing");
	FAILS(lwio_opendir(c, "errors", &d), ENOTDIR, "errors");
	CHECK(lwio_lock(f, 10, 10, LWIO_LOCK_EXCLUSIVE, 0) == 0);
	FAILS(lwio_lock(readonly, 15, 1, LWIO_LOCK_SHARED, 0), EAGAIN, "locked");
	FAILS(lwio_lock(readonly, 15, 1, LWIO_LOCK_SHARED, 50), ETIMEDOUT, "lock");
	CHECK(lwio_pwrite(f, p, 100, 0) == 100);
	FAILS(lwio_pread(readonly, p, 10, 5), EAGAIN, "locked");
	FAILS(lwio_pwrite(readonly, p, 10, 5), EACCES, "permission");

	/* Batches. */
	CHECK(lwio_batch_new(c, 2, 0, &b) == 0);
	FAILS(lwio_batch_eventfd(b), EINVAL, "LWIO_BATCH_EVENTFD");
	FAILS(lwio_batch_submit(b, NULL, 1), EINVAL, "NULL");
	FAILS(lwio_batch_submit(b, &op, -1), EINVAL, "below 0");
	FAILS(lwio_batch_reap(b, &done, 0, 0, 0), EINVAL, "max");
	FAILS(lwio_batch_reap(b, &done, 1, 2, 0), EINVAL, "min");
	FAILS(lwio_batch_reap(b, NULL, 1, 1, 0), EINVAL, "NULL");
	CHECK(lwio_batch_reap(b, &done, 1, 1, -1) == 0);
	op.tag = 7, op.kind = 9;
	CHECK(lwio_batch_submit(b, &op, 1) == 1 && lwio_batch_reap(b, &done, 1, 1, -1) == 1);
	CHECK(done.tag == 7);
	FAILS(done.result, EINVAL, "kind");
	op.kind = LWIO_OP_READ, op.buf = p, op.len = 1;
	CHECK(lwio_batch_submit(b, &op, 1) == 1 && lwio_batch_submit(b, &op, 1) == 1);
	FAILS(lwio_batch_submit(b, &op, 1), EAGAIN, "full");
	CHECK(lwio_batch_reap(b, &done, 1, 1, -1) == 1);
	FAILS(done.result, EBADF, "handle");
	CHECK(lwio_batch_reap(b, &done, 1, 1, -1) == 1);
	op.kind = LWIO_OP_WRITE, op.file = readonly;
	CHECK(lwio_batch_submit(b, &op, 1) == 1 && lwio_batch_reap(b, &done, 1, 1, -1) == 1);
	FAILS(done.result, EACCES, "permission");
	CHECK(done.done == 0);

	/* Closed objects. */
	CHECK(lwio_buffer_new(c, 4096, &buffer, &data) == 0 && lwio_buffer_busy(buffer) == 0);
	CHECK(lwio_buffer_free(buffer) == 0);
	FAILS(lwio_buffer_free(buffer), EBADF, "handle");
	CHECK(lwio_batch_close(b) == 0);
	FAILS(lwio_batch_close(b), EBADF, "handle");
	CHECK(lwio_close(readonly) == 0);
	FAILS(lwio_close(readonly), EBADF, "handle");
	CHECK(lwio_opendir(c, ".", &d) == 0 && lwio_closedir(d) == 0);
	FAILS(lwio_readdir(d, &entry, 1), EBADF, "handle");
	CHECK(lwio_batch_new(c, 2, 0, &b) == 0);
	CHECK(lwio_client_close(c) == 0);
	FAILS(lwio_client_close(c), EBADF, "handle");
	CHECK(lwio_pread(f, p, 1, 0) < 0);
	op.kind = LWIO_OP_READ, op.file = f;
	CHECK(lwio_batch_submit(b, &op, 1) != 0);
	CHECK(lwio_batch_close(b) == 0);
	lwio_close(f);
	FAILS(lwio_close(f), EBADF, "handle");
}

static void test_heads(const char *provider)
{
	enum { count = 200 };
	static char names[count][20], bufs[count][100];
	static struct lwio_head heads[count];
	lwio_client c = dial();
	int i;

	(void)provider;
	for (i = 0; i < count; i++) {
		lwio_file f;

		sprintf(names[i], "head%d", i);
		heads[i].name = names[i], heads[i].buf = bufs[i], heads[i].size = sizeof bufs[i];
		if (i % 50 == 49)
			continue;
		f = file(c, names[i], O_WRONLY | O_CREAT | O_TRUNC);
		CHECK(lwio_pwrite(f, names[i], strlen(names[i]), 0) == (int64_t)strlen(names[i]));
		CHECK(lwio_close(f) == 0);
	}
	CHECK(lwio_read_heads(c, heads, count) == 4);
	CHECK(strstr(lwio_error(), "head49:") != NULL);
	for (i = 0; i < count; i++) {
		if (i % 50 == 49) {
			CHECK(heads[i].result == -ENOENT);
			continue;
		}
		CHECK(heads[i].result == (int64_t)strlen(names[i]) && strcmp(names[i], bufs[i]) == 0);
		CHECK(heads[i].stat.size == strlen(names[i]));
		CHECK(lwio_unlink(c, names[i]) == 0);
	}
	heads[0].name = NULL;
	CHECK(lwio_read_heads(c, heads, 1) == 1 && heads[0].result == -EINVAL);
	CHECK(lwio_client_close(c) == 0);
}

/* Reads and writes random parts of a file by a batch, in memory of the program and in a buffer. */
static void run_batch(lwio_client c, lwio_file f, int flags, int rounds)
{
	enum { depth = 16, part = 4096, parts = 64 };
	lwio_batch b = 0;
	lwio_buffer buffer = 0;
	void *memory = NULL;
	unsigned char *own = (unsigned char *)malloc(depth * part), want[part];
	struct lwio_op ops[depth];
	struct lwio_completion done[depth];
	int slot_of[depth], next = 0, busy = 0, finished = 0, i, n;

	CHECK(own != NULL);
	CHECK(lwio_batch_new(c, depth, flags, &b) == 0);
	CHECK(lwio_buffer_new(c, depth * part, &buffer, &memory) == 0);
	for (i = 0; i < depth; i++)
		slot_of[i] = i; /* the free slots are slot_of[busy..depth) */
	while (finished < rounds) {
		for (n = 0; busy + n < depth && next < rounds; n++, next++) {
			int slot = slot_of[busy + n];
			unsigned char *p = (slot % 2 ? own : (unsigned char *)memory) + slot * part;

			memset(&ops[n], 0, sizeof ops[n]);
			ops[n].kind = LWIO_OP_READ;
			ops[n].file = f;
			ops[n].buf = p;
			ops[n].len = part;
			ops[n].off = (int64_t)(next % parts) * part;
			ops[n].tag = (uint64_t)slot << 32 | (uint64_t)(next % parts);
		}
		if (n > 0)
			CHECK(lwio_batch_submit(b, ops, n) == n);
		busy += n;
		if (flags & LWIO_BATCH_EVENTFD) {
			struct pollfd p;

			p.fd = lwio_batch_eventfd(b);
			p.events = POLLIN;
			CHECK(poll(&p, 1, 30000) == 1);
			n = lwio_batch_reap(b, done, 5, 1, 0);
		} else {
			n = lwio_batch_reap(b, done, 5, 1, -1);
		}
		CHECK(n > 0);
		for (i = 0; i < n; i++) {
			int slot = (int)(done[i].tag >> 32);
			unsigned char *p = (slot % 2 ? own : (unsigned char *)memory) + slot * part;

			CHECK(done[i].result == part && done[i].done == part);
			fill(want, part, (unsigned)done[i].tag);
			CHECK(memcmp(p, want, part) == 0);
			slot_of[--busy] = slot;
		}
		finished += n;
	}
	CHECK(lwio_batch_reap(b, done, depth, 1, -1) == 0);
	if (flags & LWIO_BATCH_EVENTFD) {
		struct pollfd p;

		p.fd = lwio_batch_eventfd(b);
		p.events = POLLIN;
		CHECK(poll(&p, 1, 0) == 0);
	}
	CHECK(lwio_batch_close(b) == 0);
	CHECK(lwio_buffer_free(buffer) == 0);
	free(own);
}

static lwio_file parts_file(lwio_client c, const char *name)
{
	unsigned char part[4096];
	lwio_file f = file(c, name, O_RDWR | O_CREAT | O_TRUNC);
	int i;

	for (i = 0; i < 64; i++) {
		fill(part, sizeof part, (unsigned)i);
		CHECK(lwio_pwrite(f, part, sizeof part, (int64_t)i * 4096) == 4096);
	}
	return f;
}

static void test_batch(const char *provider)
{
	lwio_client c = dial();
	lwio_file f = parts_file(c, "batch");
	lwio_batch b = 0;
	struct lwio_op op;
	struct lwio_completion done;
	unsigned char p[8192];
	int i;

	(void)provider;
	run_batch(c, f, 0, 2000);
	run_batch(c, f, LWIO_BATCH_EVENTFD, 2000);
	memset(&op, 0, sizeof op);
	for (i = 0; i < 2; i++) { /* writes, and a read across the end of the file */
		CHECK(lwio_batch_new(c, 1, i ? LWIO_BATCH_EVENTFD : 0, &b) == 0);
		memset(p, 'a' + i, sizeof p);
		op.kind = LWIO_OP_WRITE, op.file = f, op.buf = p, op.len = 5000, op.off = 64 * 4096 - 100, op.tag = 3;
		CHECK(lwio_batch_submit(b, &op, 1) == 1 && lwio_batch_reap(b, &done, 1, 1, -1) == 1);
		CHECK(done.tag == 3 && done.result == 5000);
		memset(p, 0, sizeof p);
		op.kind = LWIO_OP_READ, op.len = 8000;
		CHECK(lwio_batch_submit(b, &op, 1) == 1 && lwio_batch_reap(b, &done, 1, 1, 30000) == 1);
		CHECK(done.result == 5000 && p[0] == 'a' + i && p[4999] == 'a' + i && p[5000] == 0);
		CHECK(lwio_batch_submit(b, &op, 1) == 1); /* close gives it up */
		CHECK(lwio_batch_close(b) == 0);
	}
	CHECK(lwio_close(f) == 0);
	CHECK(lwio_client_close(c) == 0);
}

struct worker {
	pthread_t thread;
	lwio_client client;
	lwio_file file;
	lwio_batch shared;
	int number;
};

static void *work(void *argument)
{
	struct worker *w = (struct worker *)argument;
	unsigned char p[1000], q[1000];
	char name[30];
	lwio_file f;
	int i;

	sprintf(name, "thread%d", w->number);
	f = file(w->client, name, O_RDWR | O_CREAT | O_TRUNC);
	for (i = 0; i < 50; i++) {
		lwio_file missing;

		fill(p, sizeof p, (unsigned)(w->number * 100 + i));
		CHECK(lwio_pwrite(f, p, sizeof p, i * 1000) == 1000);
		CHECK(lwio_pread(f, q, sizeof q, i * 1000) == 1000 && memcmp(p, q, sizeof p) == 0);
		FAILS(lwio_open(w->client, name + 1, O_RDONLY, &missing), ENOENT, name + 1);
	}
	run_batch(w->client, w->file, w->number % 2 ? LWIO_BATCH_EVENTFD : 0, 500);
	for (i = 0; i < 200; i++) { /* one batch, in use by all */
		struct lwio_op op;
		struct lwio_completion done;
		int n;

		memset(&op, 0, sizeof op);
		op.kind = LWIO_OP_READ, op.file = w->file, op.buf = q, op.len = 0, op.tag = 5;
		while ((n = lwio_batch_submit(w->shared, &op, 1)) == -EAGAIN) {
			n = lwio_batch_reap(w->shared, &done, 1, 1, 100);
			CHECK(n == 1 || n == -ETIMEDOUT || n == 0);
		}
		CHECK(n == 1);
		n = lwio_batch_reap(w->shared, &done, 1, 1, 100);
		CHECK(n == 0 || n == -ETIMEDOUT || (n == 1 && done.tag == 5 && done.result == 0));
	}
	CHECK(lwio_close(f) == 0);
	CHECK(lwio_unlink(w->client, name) == 0);
	return NULL;
}

static void test_threads(const char *provider)
{
	enum { count = 12 };
	struct worker workers[count];
	lwio_client c = dial();
	lwio_file f = parts_file(c, "threads");
	lwio_batch shared = 0;
	int i;

	(void)provider;
	CHECK(lwio_batch_new(c, 6, LWIO_BATCH_EVENTFD, &shared) == 0);
	for (i = 0; i < count; i++) {
		workers[i].client = c, workers[i].file = f, workers[i].shared = shared, workers[i].number = i;
		CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	}
	for (i = 0; i < count; i++)
		CHECK(pthread_join(workers[i].thread, NULL) == 0);
	CHECK(lwio_batch_close(shared) == 0);
	CHECK(lwio_close(f) == 0);
	CHECK(lwio_client_close(c) == 0);
}

static void test_fork(const char *provider)
{
	lwio_client c = dial();
	lwio_file f = file(c, "fork", O_RDWR | O_CREAT);
	int status = 0;
	pid_t child = fork();

	(void)provider;
	CHECK(child >= 0);
	if (child == 0) {
		char p[1];
		lwio_client other;

		FAILS(lwio_pread(f, p, 1, 0), EPERM, "forked");
		FAILS(lwio_dial(url, NULL, &other), EPERM, "forked");
		FAILS(lwio_close(f), EPERM, "forked");
		FAILS(lwio_client_close(c), EPERM, "forked");
		CHECK(lwio_abi_version() == LWIO_ABI_VERSION);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(lwio_pwrite(f, "x", 1, 0) == 1);
	CHECK(lwio_close(f) == 0);
	CHECK(lwio_client_close(c) == 0);
}

/* Prints a word, and waits for a line of the Go test. */
static void ask(const char *word)
{
	char line[10];

	puts(word);
	fflush(stdout);
	CHECK(fgets(line, sizeof line, stdin) != NULL);
}

static void test_restart(const char *provider)
{
	lwio_client c;
	struct lwio_options o;
	lwio_file f;
	struct lwio_stat st;
	char p[100];

	(void)provider;
	memset(&o, 0, sizeof o);
	o.size = sizeof o, o.timeout_ms = 60000, o.reconnect_ms = 60000;
	CHECK(lwio_dial(url, &o, &c) == 0);
	f = file(c, "restart", O_RDWR | O_CREAT | O_TRUNC);
	CHECK(lwio_pwrite(f, "before", 6, 0) == 6 && lwio_sync(f) == 0);
	ask("restart");
	CHECK(lwio_pread(f, p, sizeof p, 0) == 6 && memcmp(p, "before", 6) == 0);
	CHECK(lwio_pwrite(f, "after", 5, 0) == 5);
	CHECK(lwio_stat(c, "restart", &st) == 0 && st.size == 6);
	CHECK(lwio_close(f) == 0);
	CHECK(lwio_client_close(c) == 0);

	o.reconnect_ms = -1;
	CHECK(lwio_dial(url, &o, &c) == 0);
	f = file(c, "restart", O_RDWR);
	ask("kill");
	CHECK(lwio_pread(f, p, 1, 0) < 0 && lwio_error()[0] != 0);
	CHECK(lwio_pwrite(f, p, 1, 0) < 0 && lwio_error()[0] != 0);
	FAILS(lwio_stat(c, "restart", &st), ENOTCONN, "stat");
	lwio_close(f);
	lwio_client_close(c);
}

static void test_full(const char *provider)
{
	enum { size = 4 << 20 };
	char *p = (char *)malloc(size);
	lwio_client c = dial();
	lwio_file f = file(c, "full", O_RDWR | O_CREAT | O_TRUNC);
	lwio_batch b = 0;
	struct lwio_op op;
	struct lwio_completion done;

	(void)provider;
	CHECK(p != NULL);
	memset(p, 1, size);
	FAILS(lwio_pwrite(f, p, size, 0), ENOSPC, "space");
	CHECK(lwio_batch_new(c, 1, 0, &b) == 0);
	memset(&op, 0, sizeof op);
	op.kind = LWIO_OP_WRITE, op.file = f, op.buf = p, op.len = size;
	CHECK(lwio_batch_submit(b, &op, 1) == 1 && lwio_batch_reap(b, &done, 1, 1, -1) == 1);
	FAILS(done.result, ENOSPC, "space");
	CHECK(done.done < size);
	CHECK(lwio_batch_close(b) == 0);
	CHECK(lwio_truncate(f, 0) == 0 && lwio_pwrite(f, p, 1000, 0) == 1000);
	CHECK(lwio_close(f) == 0 && lwio_unlink(c, "full") == 0);
	CHECK(lwio_client_close(c) == 0);
	free(p);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *provider);
	} tests[] = {
		{"basic", test_basic}, {"options", test_options}, {"errors", test_errors}, {"heads", test_heads},
		{"batch", test_batch}, {"threads", test_threads}, {"fork", test_fork}, {"restart", test_restart},
		{"full", test_full},
	};
	size_t i;

	if (argc != 4) {
		fprintf(stderr, "usage: suite NAME URL PROVIDER\n");
		return 2;
	}
	url = argv[2];
	for (i = 0; i < sizeof tests / sizeof tests[0]; i++)
		if (strcmp(tests[i].name, argv[1]) == 0) {
			tests[i].run(argv[3]);
			return 0;
		}
	fprintf(stderr, "there is no test %s\n", argv[1]);
	return 2;
}
