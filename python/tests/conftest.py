"""A library and a server for the tests. They are built from this checkout, with the go command."""

import os
import pathlib
import subprocess
import sys

import fsspec
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
# The workers of the tests import the package, too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))


def _go(directory, *args):
    subprocess.run(["go", *args], cwd=ROOT / directory, check=True)


# An installed package has the protocol by its entry point.
fsspec.register_implementation("lwio", "lwio.fs.LWIOFileSystem")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The directory with the command and the library."""
    directory = tmp_path_factory.mktemp("built")
    _go(".", "build", "-o", str(directory / "lwio"), "./cmd/lwio")
    if not os.environ.get("LWIO_LIBRARY"):
        _go("clib", "run", "./build", "-prefix", str(directory), "-static=false")
        os.environ["LWIO_LIBRARY"] = str(directory / "lib" / "liblwio.so.1")
    return directory


class Server:
    """A process of lwio serve with one share."""

    def __init__(self, built, directory):
        self.directory = directory
        directory.mkdir()
        password = directory.parent / "password"
        password.write_text("secret\n")
        password.chmod(0o600)
        self._args = [str(built / "lwio"), "serve", "--user", "u", "--password-file", str(password)]
        self._args += ["share=" + str(directory), "--listen"]
        self.process = None
        self.start("127.0.0.1:0")

    def start(self, listen):
        self.process = subprocess.Popen(self._args + [listen], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().strip()
        assert line, "the server did not start"
        self.host = line.split("://")[1].split("@")[-1].split("/")[0]
        self.url = "lwio://u:secret@%s/share" % self.host

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def server(built, tmp_path):
    s = Server(built, tmp_path / "share")
    yield s
    s.kill()


@pytest.fixture(params=["shm", "iwarp"])
def url(request, server):
    """The URL of a share, over each provider."""
    return server.url + "?provider=" + request.param


@pytest.fixture
def client(url):
    import lwio

    with lwio.Client(url) as c:
        yield c


@pytest.fixture
def fs(url):
    f = fsspec.core.url_to_fs(url)[0]
    yield f
    f.close()
