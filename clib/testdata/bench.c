/* bench URL NAME SIZE SECONDS: 4 KiB reads at random offsets of a file of SIZE bytes, 32 in flight. It prints the
 * reads of a second. */
#define _POSIX_C_SOURCE 199309L
#include <lwio.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { depth = 32, part = 4096 };

static void check(int64_t result)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", lwio_error());
		exit(1);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	struct lwio_op ops[depth];
	struct lwio_completion done[depth];
	lwio_client client;
	lwio_file file;
	lwio_batch batch;
	lwio_buffer buffer;
	void *memory;
	uint64_t blocks, reads = 0, random = 88172645463325252ULL;
	double begin, end;
	int i, n;

	if (argc != 5)
		return 2;
	blocks = strtoull(argv[3], NULL, 10) / part;
	check(lwio_dial(argv[1], NULL, &client));
	check(lwio_open(client, argv[2], O_RDONLY, &file));
	check(lwio_batch_new(client, depth, 0, &batch));
	check(lwio_buffer_new(client, depth * part, &buffer, &memory));
	memset(ops, 0, sizeof ops);
	for (i = 0; i < depth; i++)
		done[i].tag = (uint64_t)i;
	n = depth;
	begin = now();
	end = begin + atof(argv[4]);
	do {
		for (i = 0; i < n; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			ops[i].kind = LWIO_OP_READ;
			ops[i].file = file;
			ops[i].buf = (char *)memory + done[i].tag * part;
			ops[i].len = part;
			ops[i].off = (int64_t)(random % blocks) * part;
			ops[i].tag = done[i].tag;
		}
		check(lwio_batch_submit(batch, ops, n));
		n = lwio_batch_reap(batch, done, depth, 1, -1);
		check(n);
		for (i = 0; i < n; i++)
			check(done[i].result);
		reads += (uint64_t)n;
	} while (now() < end);
	printf("%.0f\n", (double)reads / (now() - begin));
	check(lwio_batch_close(batch));
	check(lwio_buffer_free(buffer));
	check(lwio_close(file));
	check(lwio_client_close(client));
	return 0;
}
