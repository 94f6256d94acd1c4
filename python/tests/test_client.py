"""Clients and file objects."""

import errno
import io
import os
import random
import subprocess
import sys
import threading

import pytest

import lwio


def test_file_object_reads_and_writes(client):
    data = os.urandom(700_000)
    with client.open("f", "wb") as f:
        assert f.write(data) == len(data)
    with client.open("f", "rb") as f:
        assert f.read() == data
        assert f.seek(-10, io.SEEK_END) == len(data) - 10
        assert f.read(100) == data[-10:] and f.read(1) == b""
        f.seek(5)
        assert f.read(3) == data[5:8] and f.tell() == 8
        with pytest.raises(io.UnsupportedOperation):
            f.write(b"x")
    with client.open("f", "r+b") as f:
        f.seek(3)
        f.write(b"abc")
        f.seek(0)
        assert f.read(8) == data[:3] + b"abc" + data[6:8]
        f.truncate(10)
    with client.open("f", "ab") as f:
        assert f.tell() == 10
        f.write(b"end")
    assert client.stat("f").size == 13
    with client.open("t", "w", encoding="utf-8") as f:
        f.write("zwölf\nlines\n")
    with client.open("t", "r", encoding="utf-8") as f:
        assert list(f) == ["zwölf\n", "lines\n"]
    with client.open("f", "rb", buffering=0) as raw:
        assert isinstance(raw, lwio.RawFile) and len(raw.readall()) == 13


def test_file_object_behaves_like_local_file(client, tmp_path):
    rnd = random.Random(1)
    local = open(tmp_path / "local", "w+b")
    with client.open("remote", "w+b", buffering=64) as remote:
        for _ in range(500):
            step = rnd.randrange(5)
            if step == 0:
                data = rnd.randbytes(rnd.randrange(300))
                results = [f.write(data) for f in (local, remote)]
            elif step == 1:
                n = rnd.randrange(-1, 400)
                results = [f.read(n) for f in (local, remote)]
            elif step == 2:
                args = (rnd.randrange(2000), io.SEEK_SET) if rnd.random() < 0.7 else (0, io.SEEK_END)
                results = [f.seek(*args) for f in (local, remote)]
            elif step == 3:
                n = rnd.randrange(2000)
                results = [f.truncate(n) for f in (local, remote)]
            else:
                results = [f.flush() or f.tell() for f in (local, remote)]
            assert results[0] == results[1]
        remote.flush()
        local.flush()
        local.seek(0)
        remote.seek(0)
        assert local.read() == remote.read()
    local.close()


def test_positional_calls_take_any_bytes(client):
    with client.open("p", "w+b", buffering=0) as f:
        assert f.pwrite(b"", 0) == 0
        assert f.pwrite(b"abc\0def", 2) == 7
        assert f.pwrite(bytearray(b"xy"), 0) == 2
        assert f.pwrite(memoryview(b"012345")[2:4], 9) == 2
        assert f.pread(100, 0) == b"xyabc\0def23"
        assert f.pread(0, 0) == b"" and f.pread(5, 1000) == b""
        f.sync()


def test_names_and_directories(client):
    client.mkdir("d")
    client.mkdir("d/sub")
    client.open("d/ä", "wb").close()
    assert [(name, st.is_dir) for name, st in client.scandir("d")] == [("sub", True), ("ä", False)]
    client.rename("d/ä", "d/b")
    client.unlink("d/b")
    client.rmdir("d/sub")
    client.rmdir("d")
    assert client.scandir() == []
    assert "authenticated" in client.transport()


def test_many_entries(client):
    client.mkdir("many")
    for i in range(600):
        client.open("many/%03d" % i, "wb", buffering=0).close()
    assert [name for name, _ in client.scandir("many")] == ["%03d" % i for i in range(600)]


@pytest.mark.parametrize(
    "call, kind, number",
    [
        (lambda c: c.open("missing"), FileNotFoundError, errno.ENOENT),
        (lambda c: c.stat("missing"), FileNotFoundError, errno.ENOENT),
        (lambda c: c.open("f", "xb"), FileExistsError, errno.EEXIST),
        (lambda c: c.mkdir("d"), FileExistsError, errno.EEXIST),
        (lambda c: c.open("d", "wb"), IsADirectoryError, errno.EISDIR),
        (lambda c: c.unlink("d"), IsADirectoryError, errno.EISDIR),
        (lambda c: c.rmdir("f"), NotADirectoryError, errno.ENOTDIR),
        (lambda c: c.scandir("f"), NotADirectoryError, errno.ENOTDIR),
        (lambda c: c.open("f").seek(-1), OSError, errno.EINVAL),
        (lambda c: lwio.Client("http://x/y"), OSError, errno.EINVAL),
        (lambda c: lwio.Client("lwio://u:p@127.0.0.1:1/s"), ConnectionRefusedError, errno.ECONNREFUSED),
    ],
)
def test_errors_are_oserrors(client, call, kind, number):
    client.mkdir("d")
    client.open("f", "wb").close()
    with pytest.raises(kind) as e:
        call(client)
    assert e.value.errno == number and e.value.strerror


def test_wrong_password_and_share(server):
    with pytest.raises(PermissionError, match="password"):
        lwio.Client(server.url.replace("secret", "wrong"))
    with pytest.raises(FileNotFoundError, match="share"):
        lwio.Client(server.url + "x")


def test_arguments_are_checked(client):
    with pytest.raises(ValueError):
        client.open("f", "rw")
    with pytest.raises(ValueError):
        client.open("f\0g")
    with client.open("f", "wb", buffering=0) as f:
        with pytest.raises(io.UnsupportedOperation):
            f.pread(1, 0)
        with pytest.raises(OSError) as e:
            f.pwrite(b"x", -1)
        assert e.value.errno == errno.EINVAL
    with pytest.raises(ValueError, match="closed"):
        f.write(b"x")


def test_locks_exclude_other_opens(client):
    with client.open("f", "wb", buffering=0) as f, client.open("f", "rb", buffering=0) as g:
        f.pwrite(b"0123456789", 0)
        f.lock(0, 5)
        with pytest.raises(BlockingIOError):
            g.lock(2, 1, shared=True, timeout=0)
        with pytest.raises(BlockingIOError):
            g.pread(2, 0)
        f.unlock(0, 5)
        assert g.pread(2, 0) == b"01"


def test_ranges(client):
    data = os.urandom(9 << 20)
    with client.open("big", "wb") as f:
        f.write(data)
    with client.open("big", "rb", buffering=0) as f, client.open("w", "wb", buffering=0) as w:
        rnd = random.Random(2)
        ranges = [(f, rnd.randrange(len(data)), rnd.randrange(20000)) for _ in range(3000)]
        ranges += [(f, 0, len(data)), (f, len(data), 10), (f, 0, 0)]
        for (_, off, size), got in zip(ranges, client.read_ranges(ranges)):
            assert got == data[off : off + size]
        got = client.read_ranges([(f, 0, 1), (w, 0, 1), (f, 1, 1)])
        assert got[0] == data[:1] and isinstance(got[1], PermissionError) and got[2] == data[1:2]
        with pytest.raises(ValueError):
            w.close()
            client.read_ranges([(f, 0, 1), (w, 0, 1)])
        assert client.read_ranges([(f, 0, 1)]) == [data[:1]]


def test_whole_files(client):
    want = []
    for i in range(300):
        want.append(os.urandom(i * 1000 if i % 10 == 0 else i))
        with client.open("n%d" % i, "wb") as f:
            f.write(want[-1])
    got = client.read_files(["n%d" % i for i in range(300)] + ["missing"])
    assert got[:300] == want
    assert isinstance(got[300], FileNotFoundError) and got[300].filename == "missing"


def test_threads_share_a_client(client):
    failures = []

    def work(number):
        try:
            name, data = "t%d" % number, bytes([number]) * 5000
            for _ in range(20):
                with client.open(name, "wb") as f:
                    f.write(data)
                with client.open(name, "rb", buffering=0) as f:
                    assert client.read_ranges([(f, 10, 100)] * 50) == [data[:100]] * 50
                assert client.read_files([name]) == [data]
                with pytest.raises(FileNotFoundError):
                    client.stat("missing%d" % number)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def test_server_goes(server):
    client = lwio.Client(server.url, reconnect_timeout=-1)
    f = client.open("f", "wb", buffering=0)
    f.pwrite(b"x", 0)
    server.kill()
    with pytest.raises(OSError):
        f.pwrite(b"x", 0)
    with pytest.raises(OSError) as e:
        client.stat("f")
    assert e.value.errno == errno.ENOTCONN
    server.start(server.host)
    with lwio.Client(server.url) as again:
        assert again.stat("f").size == 1


def test_forked_child_connects_anew(client, url):
    with client.open("f", "wb") as f:
        f.write(b"data")
    inherited = client.open("f", "rb", buffering=0)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with pytest.raises(PermissionError, match="fork"):
                    inherited.pread(1, 0)
                with pytest.raises(PermissionError, match="fork"):
                    client.stat("f")
                with lwio.Client(url) as own, own.open("f") as f:
                    assert f.read() == b"data"
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    assert inherited.pread(4, 0) == b"data"


def test_missing_library(built):
    code = "import lwio; lwio.Client('lwio://x/y')"
    env = dict(os.environ, LWIO_LIBRARY="/nonexistent/liblwio.so.1")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode != 0 and "LWIO_LIBRARY" in done.stderr


def test_package_installs_without_network(tmp_path):
    root = os.path.dirname(os.path.dirname(os.path.abspath(lwio.__file__)))
    args = ["--no-build-isolation", "--no-index", "--no-deps", "--target", str(tmp_path / "site")]
    copy = tmp_path / "python"
    subprocess.run(["cp", "-r", root, str(copy)], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *args, str(copy)], check=True)
    code = "import fsspec, lwio; print(lwio.__file__, fsspec.get_filesystem_class('lwio'))"
    env = dict(os.environ, PYTHONPATH=str(tmp_path / "site"))
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert str(tmp_path / "site") in out.stdout and "LWIOFileSystem" in out.stdout
