"""A file system for fsspec: lwio://user:password@host:port/share/path."""

import concurrent.futures
import errno
import os
import re
import threading
from urllib.parse import quote, unquote

from fsspec.spec import AbstractFileSystem

from lwio.client import BUFFER_SIZE, Client, RawFile

_URL = re.compile(r"lwio://(?:(?P<user>[^@/]*)@)?(?P<host>[^/]*)(?:/(?P<share>[^/?]*))?(?:/(?P<path>.*))?$", re.S)
_QUERY = re.compile(r"\?((?:provider|completion|encryption|connections|app)=[^?]*)$")
# Opens of files at a time for cat_ranges.
_OPENS = 16


def _parse(url):
    """Returns user, password, host, share, path and query of a URL."""
    query = _QUERY.search(url)
    m = _URL.match(url[: query.start()] if query else url)
    if not m:
        raise ValueError("lwio: not a URL: a URL is lwio://user:password@host/share/path")
    user, _, password = (m["user"] or "").partition(":")
    return (
        unquote(user) or None,
        unquote(password) if ":" in (m["user"] or "") else None,
        m["host"],
        unquote(m["share"] or ""),
        unquote(m["path"] or ""),
        query[1] if query else None,
    )


class LWIOFileSystem(AbstractFileSystem):
    """Files of one share. Paths are relative to the share.

    The client connects with the first use, in each process anew: an instance may be passed to other processes,
    started by spawn, forkserver or fork.
    """

    protocol = "lwio"
    root_marker = ""
    cachable = True

    def __init__(self, host, share, user=None, password=None, query=None, client_options=None, **kwargs):
        """host may contain the port. query is that of a URL, such as "provider=shm"; client_options are keyword
        arguments of lwio.Client."""
        super().__init__(**kwargs)
        self.host, self.share, self.user, self._password, self._query = host, share, user, password, query
        self._client_options = client_options or {}
        self._mutex = threading.Lock()
        self._client, self._pid = None, None

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        path = os.fspath(path)
        if path.startswith("lwio://"):
            path = _parse(path)[4]
        return "/".join(part for part in path.split("/") if part not in ("", "."))

    @staticmethod
    def _get_kwargs_from_urls(url):
        if not url.startswith("lwio://"):
            return {}
        user, password, host, share, _, query = _parse(url)
        found = {"user": user, "password": password, "host": host, "share": share, "query": query}
        return {k: v for k, v in found.items() if v is not None}

    def unstrip_protocol(self, name):
        """Returns the URL of a path, without the password."""
        user = quote(self.user, safe="") + "@" if self.user else ""
        return "lwio://%s%s/%s/%s" % (user, self.host, quote(self.share), quote(self._strip_protocol(name)))

    @property
    def client(self):
        """The client of this process."""
        if self._pid != os.getpid():
            self._mutex = threading.Lock()  # the old one may be held by a thread of the parent
            self._client, self._pid = None, os.getpid()
        with self._mutex:
            if self._client is None:
                url = "lwio://%s/%s" % (self.host, quote(self.share, safe=""))
                if self._query:
                    url += "?" + self._query
                self._client = Client(url, user=self.user, password=self._password, **self._client_options)
            return self._client

    def close(self):
        """Ends the session; the next use connects again."""
        if self._client is not None and self._pid == os.getpid():
            self._client.close()
        self._client = None

    @staticmethod
    def _entry(path, st):
        return {
            "name": path,
            "size": 0 if st.is_dir else st.size,
            "type": "directory" if st.is_dir else "file",
            "mtime": st.mtime,
            "created": st.btime,
        }

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        return self._entry(path, self.client.stat(path))

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        try:
            found = self.client.scandir(path)
        except NotADirectoryError:
            entries = [self.info(path)]
        else:
            entries = [self._entry(path + "/" + name if path else name, st) for name, st in found]
        return entries if detail else [e["name"] for e in entries]

    def exists(self, path, **kwargs):
        try:
            self.info(path)
            return True
        except (FileNotFoundError, NotADirectoryError):
            return False

    def modified(self, path):
        import datetime

        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def created(self, path):
        import datetime

        return datetime.datetime.fromtimestamp(self.info(path)["created"], tz=datetime.timezone.utc)

    def mkdir(self, path, create_parents=True, **kwargs):
        path = self._strip_protocol(path)
        parent = self._parent(path)
        if create_parents and parent:
            self.makedirs(parent, exist_ok=True)
        self.client.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        path = self._strip_protocol(path)
        if not path:  # the root of the share
            if not exist_ok:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return
        parts = path.split("/")
        for n in range(1, len(parts) + 1):
            try:
                self.client.mkdir("/".join(parts[:n]))
            except FileExistsError:
                if n == len(parts) and not (exist_ok and self.isdir(path)):
                    raise

    @classmethod
    def _parent(cls, path):
        return cls._strip_protocol(path).rpartition("/")[0]

    def rmdir(self, path):
        self.client.rmdir(self._strip_protocol(path))

    def _rm(self, path):
        path = self._strip_protocol(path)
        try:
            self.client.unlink(path)
        except IsADirectoryError:
            self.client.rmdir(path)

    def rm_file(self, path):
        self._rm(path)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        self.client.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    mv_file = mv

    def cp_file(self, path1, path2, **kwargs):
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self.open(path1) as source, self.open(path2, "wb") as target:
            while True:
                data = source.read(4 << 20)
                if not data:
                    return
                target.write(data)

    def touch(self, path, truncate=True, **kwargs):
        self.open(path, "wb" if truncate else "ab").close()

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        if not autocommit:
            raise NotImplementedError("lwio: no transactions")
        size = BUFFER_SIZE if block_size in (None, "default") else block_size
        return self.client.open(self._strip_protocol(path), mode, buffering=size)

    def cat_file(self, path, start=None, end=None, **kwargs):
        path = self._strip_protocol(path)
        if start is None and end is None:
            found = self.client.read_files([path])[0]
        else:
            found = self.cat_ranges([path], [start], [end])[0]
        if isinstance(found, Exception):
            raise found
        return found

    def cat(self, path, recursive=False, on_error="raise", **kwargs):
        """Reads files, many at a time; see AbstractFileSystem.cat."""
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0])
        found = {}
        for name, data in zip(paths, self.client.read_files(paths)):
            if not isinstance(data, Exception):
                found[name] = data
            elif on_error == "raise" and not (recursive and data.errno == errno.EISDIR):
                raise data
            elif on_error == "return":
                found[name] = data
        return found

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        """Reads a range of each path, with many reads in flight.

        The result is a list of bytes; with on_error="return" of exceptions, too.
        """
        if max_gap is not None:
            raise NotImplementedError
        if not isinstance(paths, list):
            raise TypeError
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError
        paths, client = [self._strip_protocol(p) for p in paths], self.client
        files = self._open_all(client, sorted(set(paths)))
        try:
            out, ranges, of = [None] * len(paths), [], []
            for i, (path, start, end) in enumerate(zip(paths, starts, ends)):
                f = files[path]
                if isinstance(f, OSError):
                    out[i] = f
                    continue
                try:
                    start, end = self._bounds(f, start, end)
                except OSError as e:
                    out[i] = e
                    continue
                ranges.append((f, start, end - start))
                of.append(i)
            for i, data in zip(of, client.read_ranges(ranges)):
                out[i] = data
        finally:
            for f in files.values():
                if not isinstance(f, OSError):
                    f.close()
        if on_error != "return":
            for data in out:
                if isinstance(data, Exception):
                    raise data
        return out

    @staticmethod
    def _bounds(f, start, end):
        """Returns the ends of a range as offsets from the beginning of the file."""
        start = 0 if start is None else start
        if start < 0 or end is None or end < 0:
            size = f.stat().size
            start = max(size + start, 0) if start < 0 else start
            end = size if end is None else size + end if end < 0 else end
        return start, max(end, start)

    @staticmethod
    def _open_all(client, paths):
        """Opens files, several at a time, and returns RawFiles or OSErrors by path."""

        def one(path):
            try:
                return RawFile(client, path, "r")
            except OSError as e:
                return e

        if len(paths) == 1:
            return {paths[0]: one(paths[0])}
        with concurrent.futures.ThreadPoolExecutor(_OPENS) as pool:
            return dict(zip(paths, pool.map(one, paths)))
