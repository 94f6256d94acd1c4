/* Prints a file of a share, with 32 reads of 64 KiB in flight:
 *
 *	cat URL NAME >OUT
 *
 * cc cat.c $(pkg-config --cflags --libs lwio) */
#include <lwio.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { depth = 32, part = 65536 };

static void check(int64_t result)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", lwio_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	lwio_client client;
	lwio_file file;
	lwio_batch batch;
	lwio_buffer buffer;
	struct lwio_stat st;
	void *memory;
	uint64_t off, i, n;

	if (argc != 3) {
		fprintf(stderr, "usage: cat URL NAME\n");
		return 2;
	}
	check(lwio_dial(argv[1], NULL, &client));
	check(lwio_open(client, argv[2], O_RDONLY, &file));
	check(lwio_fstat(file, &st));
	check(lwio_batch_new(client, depth, 0, &batch));
	check(lwio_buffer_new(client, depth * part, &buffer, &memory));
	for (off = 0; off < st.size; off += depth * part) {
		struct lwio_op ops[depth];
		struct lwio_completion done[depth];
		uint64_t size = 0;

		for (n = 0; n < depth && off + n * part < st.size; n++) {
			memset(&ops[n], 0, sizeof ops[n]);
			ops[n].kind = LWIO_OP_READ;
			ops[n].file = file;
			ops[n].buf = (char *)memory + n * part;
			ops[n].len = part;
			ops[n].off = (int64_t)(off + n * part);
		}
		check(lwio_batch_submit(batch, ops, (int)n));
		check(lwio_batch_reap(batch, done, depth, (int)n, -1));
		for (i = 0; i < n; i++) {
			check(done[i].result);
			size += (uint64_t)done[i].result;
		}
		fwrite(memory, 1, size, stdout);
	}
	check(lwio_batch_close(batch));
	check(lwio_buffer_free(buffer));
	check(lwio_close(file));
	check(lwio_client_close(client));
	return fflush(stdout) == 0 ? 0 : 1;
}
