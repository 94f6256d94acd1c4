"""Compares file systems of fsspec: lwio over each provider, and a local directory.

    go build -o /tmp/lwio ./cmd/lwio
    LWIO_LIBRARY=/usr/local/lib/liblwio.so.1 python3 python/figures.py /tmp/lwio

Rows: cat_ranges of 10,000 ranges of 4 KiB of a file, and cat of 10,000 files of 4 KiB. The client has processor 0
and the server processor 1. The file systems take turns; printed are medians of the seconds of 3 runs.
"""

import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import fsspec

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
fsspec.register_implementation("lwio", "lwio.fs.LWIOFileSystem")

COUNT, SIZE, FILE, ROUNDS = 10_000, 4096, 64 << 20, 3


def serve(command, directory):
    """Starts a server, and returns the process and its URL."""
    args = ["taskset", "-c", "1", command, "serve", "--listen", "127.0.0.1:0", "share=" + directory]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def main():
    with tempfile.TemporaryDirectory() as directory:
        with open(directory + "/big", "wb") as f:
            f.write(os.urandom(FILE))
        os.mkdir(directory + "/many")
        names = ["many/%05d" % i for i in range(COUNT)]
        for name in names:
            with open(directory + "/" + name, "wb") as f:
                f.write(b"x" * SIZE)
        process, url = serve(sys.argv[1], directory)
        os.sched_setaffinity(0, {0})
        try:
            systems = {
                "lwio, shm": (fsspec.core.url_to_fs(url + "?provider=shm")[0], ""),
                "lwio, iwarp": (fsspec.core.url_to_fs(url + "?provider=iwarp")[0], ""),
                "local": (fsspec.filesystem("file"), directory + "/"),
            }
            compare(systems, names)
        finally:
            process.kill()
            process.wait()


def compare(systems, names):
    """Prints the rows."""
    rnd = random.Random(1)
    starts = [rnd.randrange(FILE - SIZE) for _ in range(COUNT)]
    ends = [start + SIZE for start in starts]
    rows = {
        "cat_ranges": lambda fs, prefix: fs.cat_ranges([prefix + "big"] * COUNT, starts, ends),
        "cat": lambda fs, prefix: fs.cat([prefix + name for name in names]),
    }
    for row, call in rows.items():
        seconds = {name: [] for name in systems}
        for _ in range(ROUNDS):
            for name, (fs, prefix) in systems.items():
                begin = time.monotonic()
                if len(call(fs, prefix)) != COUNT:
                    raise SystemExit("%s of %s failed" % (row, name))
                seconds[name].append(time.monotonic() - begin)
        print(row + ": " + "; ".join("%s %.2f s" % (n, statistics.median(s)) for n, s in seconds.items()))


if __name__ == "__main__":
    main()
