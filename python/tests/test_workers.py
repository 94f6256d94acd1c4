"""Processes that a program starts: each has a client of its own."""

import multiprocessing
import os

import pytest


class Files:
    """A data set of files, as torch wants it: by index."""

    def __init__(self, fs, names):
        self.fs, self.names = fs, names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        return len(self.fs.cat_file(self.names[i])), os.getpid()


def _read(job):
    fs, name = job
    return fs.cat_file(name), fs.cat_ranges([name], [1], [3])[0]


@pytest.fixture
def files(fs):
    names = ["w%02d" % i for i in range(40)]
    fs.pipe({name: b"x" * (i + 1) for i, name in enumerate(names)})
    return Files(fs, names)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pool(files, method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        got = pool.map(_read, [(files.fs, name) for name in files.names])
    assert got == [(b"x" * (i + 1), b"x" * min(i, 2)) for i in range(40)]
    assert files.fs.cat_file("w00") == b"x"


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_data_loader(files, method):
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader(files, batch_size=None, num_workers=2, multiprocessing_context=method)
    got = list(loader)
    assert [size for size, _ in got] == list(range(1, 41))
    assert len({pid for _, pid in got} - {os.getpid()}) == 2
