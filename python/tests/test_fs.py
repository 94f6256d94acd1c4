"""The file system for fsspec."""

import errno
import os
import pickle
import random

import fsspec
import pytest

from lwio.fs import LWIOFileSystem


def test_url_is_split():
    path = "lwio://al%40ice:s%3Aec@host:4450/share%20x/dir/a%25b?provider=shm"
    assert LWIOFileSystem._get_kwargs_from_urls(path) == {
        "user": "al@ice",
        "password": "s:ec",
        "host": "host:4450",
        "share": "share x",
        "query": "provider=shm",
    }
    assert LWIOFileSystem._strip_protocol(path) == "dir/a%b"
    assert LWIOFileSystem._strip_protocol("lwio://host/share/*/part-?.csv") == "*/part-?.csv"
    assert LWIOFileSystem._strip_protocol("/a//./b/") == "a/b"
    assert LWIOFileSystem._strip_protocol("lwio://host/share") == ""


def test_open_by_url(url):
    name = url.replace("/share?", "/share/dir/x?")
    fs, path = fsspec.core.url_to_fs(name)
    fs.mkdir("dir")
    with fsspec.open(name, "wb") as f:
        f.write(b"hello")
    with fsspec.open(name, "rt") as f:
        assert f.read() == "hello"
    assert path == "dir/x" and fs.unstrip_protocol(path) == "lwio://u@%s/share/dir/x" % fs.host
    fs.close()


def test_names(fs):
    fs.makedirs("a/b/c")
    fs.pipe({"a/x": b"1", "a/b/y": b"22", "a/b/c/z": b"333"})
    assert fs.ls("a", detail=False) == ["a/b", "a/x"]
    assert [(e["name"], e["type"], e["size"]) for e in fs.ls("a")] == [("a/b", "directory", 0), ("a/x", "file", 1)]
    assert fs.ls("a/x", detail=False) == ["a/x"]
    assert fs.find("") == ["a/b/c/z", "a/b/y", "a/x"]
    assert fs.glob("a/**/z") == ["a/b/c/z"]
    assert fs.du("a") == 6
    assert fs.exists("a/x") and not fs.exists("a/none") and not fs.exists("a/x/below")
    assert fs.isdir("a") and fs.isfile("a/x") and fs.info("/a/b/y")["size"] == 2
    assert fs.modified("a/x").timestamp() > 1.6e9 and fs.created("a/x").timestamp() > 1.6e9
    fs.mv("a/x", "a/moved")
    fs.cp("a/moved", "copy")
    assert fs.cat("copy") == b"1"
    fs.touch("copy")
    assert fs.size("copy") == 0
    with fs.open("copy", "ab") as f:
        f.write(b"more")
    assert fs.cat_file("copy", 1, 3) == b"or" and fs.cat_file("copy", -2) == b"re"
    fs.rm("a", recursive=True)
    assert fs.ls("", detail=False) == ["copy"]
    fs.rm("copy")


def test_trees_are_copied(fs, tmp_path):
    local = tmp_path / "tree"
    (local / "sub").mkdir(parents=True)
    (local / "f").write_bytes(b"x" * 100_000)
    (local / "sub" / "g").write_bytes(b"")
    fs.put(str(local), "tree", recursive=True)
    fs.get("tree", str(tmp_path / "back"), recursive=True)
    assert (tmp_path / "back" / "f").read_bytes() == b"x" * 100_000
    assert (tmp_path / "back" / "sub" / "g").read_bytes() == b""


def test_cat(fs):
    want = {"c/%d" % i: os.urandom(i * 700) for i in range(150)}
    fs.mkdir("c")
    fs.pipe(want)
    assert fs.cat(list(want)) == want
    assert fs.cat("c", recursive=True) == want
    found = fs.cat(["c/1", "c/none"], on_error="return")
    assert found["c/1"] == want["c/1"] and isinstance(found["c/none"], FileNotFoundError)
    assert fs.cat(["c/1", "c/none"], on_error="omit") == {"c/1": want["c/1"]}
    with pytest.raises(FileNotFoundError):
        fs.cat(["c/1", "c/none"])


def test_cat_ranges(fs):
    rnd = random.Random(3)
    want = {"r%d" % i: os.urandom(100_000) for i in range(5)}
    fs.pipe(want)
    paths = [rnd.choice(list(want)) for _ in range(2000)]
    starts = [rnd.randrange(100_000) for _ in paths]
    ends = [start + rnd.randrange(5000) for start in starts]
    assert fs.cat_ranges(paths, starts, ends) == [want[p][s:e] for p, s, e in zip(paths, starts, ends)]
    assert fs.cat_ranges(["r0", "r0", "r1"], [-10, None, 5], [None, -99_990, 2]) == [
        want["r0"][-10:],
        want["r0"][:10],
        b"",
    ]
    assert fs.cat_ranges(["r0"] * 2, 0, 10) == [want["r0"][:10]] * 2
    got = fs.cat_ranges(["none", "r1"], 0, 10)
    assert isinstance(got[0], FileNotFoundError) and got[1] == want["r1"][:10]
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["none", "r1"], 0, 10, on_error="raise")
    assert fs.cat_ranges([], [], []) == []
    with pytest.raises(ValueError):
        fs.cat_ranges(["r0"], [1, 2], [3])


@pytest.mark.parametrize(
    "call, kind, number",
    [
        (lambda fs: fs.open("none"), FileNotFoundError, errno.ENOENT),
        (lambda fs: fs.info("none"), FileNotFoundError, errno.ENOENT),
        (lambda fs: fs.ls("none"), FileNotFoundError, errno.ENOENT),
        (lambda fs: fs.cat_file("none"), FileNotFoundError, errno.ENOENT),
        (lambda fs: fs.cat_file("none", 1, 2), FileNotFoundError, errno.ENOENT),
        (lambda fs: fs.mv("none", "x"), FileNotFoundError, errno.ENOENT),
        (lambda fs: fs.rm_file("none"), FileNotFoundError, errno.ENOENT),
        (lambda fs: fs.mkdir("d"), FileExistsError, errno.EEXIST),
        (lambda fs: fs.makedirs("d"), FileExistsError, errno.EEXIST),
        (lambda fs: fs.makedirs(""), FileExistsError, errno.EEXIST),
        (lambda fs: fs.makedirs("d/f", exist_ok=True), FileExistsError, errno.EEXIST),
        (lambda fs: fs.rmdir("d"), OSError, errno.ENOTEMPTY),
    ],
)
def test_errors_have_errno(fs, call, kind, number):
    fs.mkdir("d")
    fs.pipe("d/f", b"")
    with pytest.raises(kind) as e:
        call(fs)
    assert e.value.errno == number


def test_instance_is_pickled(fs):
    fs.pipe("f", b"x")
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat("f") == b"x"


def test_dataframes(fs, url):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(5000), "b": ["x%d" % i for i in range(5000)]})
    name = url.replace("/share?", "/share/table.csv?")
    frame.to_csv(name, index=False)
    assert pandas.read_csv(name).equals(frame)


def test_arrays(fs):
    zarr = pytest.importorskip("zarr")
    array = zarr.open(fs.get_mapper("array"), mode="w", shape=(1000, 300), chunks=(100, 100), dtype="i4")
    array[:] = 7
    array[10, :] = range(300)
    again = zarr.open(fs.get_mapper("array"), mode="r")
    assert again[10, :].tolist() == list(range(300)) and (again[11:, :] == 7).all()
