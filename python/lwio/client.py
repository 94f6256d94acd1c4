"""Clients and file objects."""

import collections
import ctypes
import errno
import io
import os
import stat as stat_modes
import struct
import threading

from lwio import _library

# Memory of a client for batches and whole files, in bytes; it is registered once.
_MEMORY = 8 << 20
# Bytes of the first read of a whole file: more than this takes another round trip.
_HEAD = 64 << 10
# Operations of one batch.
_DEPTH = 1024
# Bytes of the buffer of a file object.
BUFFER_SIZE = 256 << 10

_OP = struct.Struct("=IIQQQqQ")  # struct lwio_op
_COMPLETION = struct.Struct("=QqQ")  # struct lwio_completion

Stat = collections.namedtuple("Stat", "size is_dir mtime atime ctime btime id attributes")
Stat.__doc__ = "A file or directory. Times are seconds since 1970."


def _stat(st):
    return Stat(
        st.size,
        stat_modes.S_ISDIR(st.mode),
        st.mtime_ns / 1e9,
        st.atime_ns / 1e9,
        st.ctime_ns / 1e9,
        st.btime_ns / 1e9,
        st.id,
        st.attributes,
    )


def _bytes(name):
    """Returns a name as a string of C."""
    name = os.fsencode(name)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    return name or b"."


class _Object:
    """An object of the library, which belongs to the process that made it."""

    def __init__(self):
        self._library = _library.load()
        self._pid = os.getpid()
        self._handle = 0

    def _check(self, result, name=None):
        if result < 0:
            raise _library.error(self._library, result, name)
        return result

    def _usable(self):
        """Returns the handle."""
        if self._pid != os.getpid():
            raise OSError(errno.EPERM, "lwio: the object was made before a fork: make a new one in this process")
        return self._handle

    def _release(self, function):
        handle, self._handle = self._handle, 0
        if handle and self._pid == os.getpid():
            self._check(function(handle))


class Client(_Object):
    """A connection to a share. Names are relative to it, with slashes. Safe for threads."""

    def __init__(
        self,
        url,
        user=None,
        password=None,
        domain=None,
        app_instance=None,
        timeout=0,
        reconnect_timeout=0,
        connections=0,
        require_rdma=False,
        require_encryption=False,
    ):
        """Connects to lwio://user:password@host:port/share.

        timeout bounds each call, in seconds, 0 for 30; reconnect_timeout is how long calls wait for a lost
        connection, 0 for 5, below 0 for never.
        """
        super().__init__()
        options = _library.Options(
            ctypes.sizeof(_library.Options),
            *(None if s is None else os.fsencode(s) for s in (user, password, domain, app_instance)),
            int(timeout * 1000),
            int(reconnect_timeout * 1000),
            connections,
            require_rdma,
            require_encryption,
            0,
        )
        handle = _library.Handle()
        self._check(self._library.lwio_dial(_bytes(url), ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value
        self._mutex = threading.Lock()  # guards the fields below
        self._batch = self._buffer = 0
        self._address = None

    def close(self):
        """Ends the session. Files that are open fail after that. A second close does nothing."""
        if self._pid != os.getpid():
            self._handle = 0
            return
        with self._mutex:
            batch, self._batch = self._batch, 0
            buffer, self._buffer = self._buffer, 0
            if batch:
                self._library.lwio_batch_close(batch)
            if buffer:
                self._library.lwio_buffer_free(buffer)
        self._release(self._library.lwio_client_close)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        try:
            if getattr(self, "_handle", 0):
                self.close()
        except OSError:
            pass

    def transport(self):
        """Describes how data moves now, and why."""
        size = self._check(self._library.lwio_transport(self._usable(), None, 0)) + 1
        text = ctypes.create_string_buffer(size)
        self._check(self._library.lwio_transport(self._usable(), text, size))
        return text.value.decode()

    def open(self, name, mode="rb", buffering=-1, encoding=None, errors=None, newline=None):
        """Opens a file as the function open does, and returns a file object of the io module.

        buffering is the size of the buffer in bytes, 0 for a RawFile. Each mode with "a" begins at the end of the
        file that it finds.
        """
        text, kind = "t" in mode or "b" not in mode, mode.replace("t", "").replace("b", "")
        if sorted(kind) not in (["r"], ["w"], ["a"], ["x"], ["+", "r"], ["+", "w"], ["+", "a"], ["+", "x"]):
            raise ValueError("invalid mode: %r" % mode)
        if text and buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        raw = RawFile(self, name, kind)
        try:
            if buffering == 0:
                return raw
            size = BUFFER_SIZE if buffering < 2 else buffering
            if raw.readable() and raw.writable():
                f = io.BufferedRandom(raw, size)
            elif raw.writable():
                f = io.BufferedWriter(raw, size)
            else:
                f = io.BufferedReader(raw, size)
            return io.TextIOWrapper(f, encoding, errors, newline) if text else f
        except BaseException:
            raw.close()
            raise

    def stat(self, name):
        """Describes a file or directory."""
        st = _library.StatResult()
        self._check(self._library.lwio_stat(self._usable(), _bytes(name), ctypes.byref(st)), name)
        return _stat(st)

    def scandir(self, name="."):
        """Lists a directory: a list of names and Stats, sorted by name."""
        handle = _library.Handle()
        self._check(self._library.lwio_opendir(self._usable(), _bytes(name), ctypes.byref(handle)), name)
        try:
            entries, found = (_library.Dirent * 256)(), []
            while True:
                n = self._check(self._library.lwio_readdir(handle, entries, len(entries)), name)
                if n == 0:
                    return found
                found += [(os.fsdecode(e.name), _stat(e.stat)) for e in entries[:n]]
        finally:
            self._library.lwio_closedir(handle)

    def mkdir(self, name):
        """Creates a directory."""
        self._check(self._library.lwio_mkdir(self._usable(), _bytes(name)), name)

    def unlink(self, name):
        """Removes a file."""
        self._check(self._library.lwio_unlink(self._usable(), _bytes(name)), name)

    def rmdir(self, name):
        """Removes an empty directory."""
        self._check(self._library.lwio_rmdir(self._usable(), _bytes(name)), name)

    def rename(self, old, new):
        """Moves a file or directory. It replaces an existing file."""
        self._check(self._library.lwio_rename(self._usable(), _bytes(old), _bytes(new)), old)

    def _prepare(self):
        """Makes the batch and the memory of the client.

        Precondition: the mutex is held.
        """
        if not self._batch:
            batch = _library.Handle()
            self._check(self._library.lwio_batch_new(self._usable(), _DEPTH, 0, ctypes.byref(batch)))
            self._batch = batch.value
        if not self._buffer:
            buffer, address = _library.Handle(), ctypes.c_void_p()
            self._check(
                self._library.lwio_buffer_new(self._usable(), _MEMORY, ctypes.byref(buffer), ctypes.byref(address))
            )
            self._buffer, self._address = buffer.value, address.value
            self._memory = memoryview((ctypes.c_char * _MEMORY).from_address(address.value)).cast("B")

    def read_ranges(self, ranges):
        """Reads many ranges, with many reads in flight.

        ranges is a list of (RawFile, offset, length). The result is a list of bytes, shorter at the end of a file,
        or of the OSError of the range.
        """
        results = [None] * len(ranges)
        with self._mutex:
            self._prepare()
            try:
                first = 0
                while first < len(ranges):
                    first = self._read_some(ranges, first, results)
            except BaseException:
                # Operations may be in flight: their memory must not be used again.
                self._library.lwio_batch_close(self._batch)
                self._batch = 0
                self._library.lwio_buffer_free(self._buffer)
                self._buffer = 0
                raise
        return results

    def _read_some(self, ranges, first, results):
        """Reads the ranges from number first that fit in the memory, and returns the number of the next.

        Precondition: the mutex is held.
        """
        places, used, ops, i = [], 0, bytearray(), first
        while i < len(ranges) and len(places) < _DEPTH:
            f, off, size = ranges[i]
            if used + size > _MEMORY:
                break
            ops += _OP.pack(_library.OP_READ, 0, f._usable(), self._address + used, size, off, i)
            places.append(used)
            used += (size + 63) & ~63
            i += 1
        if i == first:  # one range that is larger than the memory
            f, off, size = ranges[i]
            try:
                results[i] = f.pread(size, off)
            except OSError as e:
                results[i] = e
            return i + 1
        n = i - first
        completions = bytearray(_COMPLETION.size * n)
        array = (ctypes.c_char * len(ops)).from_buffer(ops)
        taken = self._check(self._library.lwio_batch_submit(self._batch, array, n))
        done = 0
        while done < taken:
            array = (ctypes.c_char * len(completions)).from_buffer(completions)
            got = self._check(self._library.lwio_batch_reap(self._batch, array, n, taken - done, -1))
            for tag, result, _ in _COMPLETION.iter_unpack(memoryview(completions)[: got * _COMPLETION.size]):
                at = places[tag - first]
                if result >= 0:
                    results[tag] = bytes(self._memory[at : at + result])
                else:
                    text = self._library.lwio_error().decode("utf-8", "replace")
                    results[tag] = OSError(-result, text or os.strerror(-result), ranges[tag][0].name)
            done += got
        return first + taken

    def read_files(self, names):
        """Reads many files, many at a time. The result is a list of bytes, or of the OSError of the file."""
        results = []
        at_a_time = _MEMORY // _HEAD
        with self._mutex:
            self._prepare()
            for first in range(0, len(names), at_a_time):
                part = names[first : first + at_a_time]
                heads = (_library.Head * len(part))()
                for i, name in enumerate(part):
                    heads[i].name, heads[i].buf, heads[i].size = _bytes(name), self._address + i * _HEAD, _HEAD
                self._check(self._library.lwio_read_heads(self._usable(), heads, len(part)))
                for i, (name, head) in enumerate(zip(part, heads)):
                    if head.result < 0:
                        results.append(OSError(-head.result, os.strerror(-head.result), name))
                        continue
                    data = bytes(self._memory[i * _HEAD : i * _HEAD + head.result])
                    results.append(data if head.result >= head.stat.size else (data, head.stat.size))
        for i, r in enumerate(results):
            if isinstance(r, tuple):
                try:
                    with RawFile(self, names[i], "r") as f:
                        results[i] = r[0] + f.pread(r[1] - len(r[0]), len(r[0]))
                except OSError as e:
                    results[i] = e
        return results


class RawFile(io.RawIOBase, _Object):
    """An open file. pread and pwrite are safe for threads; read, write and seek share a position."""

    def __init__(self, client, name, kind):
        """Opens a file of a client. kind is r, w, a or x, with + for both directions."""
        _Object.__init__(self)
        self.name = name
        self._client = client  # which must not be closed before
        self._position = 0
        self._reads, self._writes = "r" in kind or "+" in kind, kind != "r"
        flags = os.O_RDWR if self._reads and self._writes else os.O_WRONLY if self._writes else os.O_RDONLY
        flags |= {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT, "x": os.O_CREAT | os.O_EXCL}[kind.strip("+")]
        handle = _library.Handle()
        self._check(self._library.lwio_open(client._usable(), _bytes(name), flags, ctypes.byref(handle)), name)
        self._handle = handle.value
        if "a" in kind:
            try:
                self._position = self.stat().size
            except BaseException:
                self.close()
                raise

    def close(self):
        if not self.closed:
            super().close()
            self._release(self._library.lwio_close)

    def __del__(self):
        try:
            if getattr(self, "_handle", 0):
                self.close()
        except OSError:
            pass

    def _usable(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return super()._usable()

    def readable(self):
        return self._reads

    def writable(self):
        return self._writes

    def seekable(self):
        return True

    def stat(self):
        """Describes the file."""
        st = _library.StatResult()
        self._check(self._library.lwio_fstat(self._usable(), ctypes.byref(st)), self.name)
        return _stat(st)

    def pread(self, size, offset):
        """Reads up to size bytes from an offset."""
        data = bytearray(size)
        del data[self._read_at(data, offset) :]
        return bytes(data)

    def _read_at(self, data, offset):
        if not self._reads:
            raise io.UnsupportedOperation("not readable")
        array = (ctypes.c_char * len(data)).from_buffer(data)
        return self._check(self._library.lwio_pread(self._usable(), array, len(data), offset), self.name)

    def pwrite(self, data, offset):
        """Writes data at an offset and returns its length."""
        if not self._writes:
            raise io.UnsupportedOperation("not writable")
        view = memoryview(data).cast("B")
        if view.readonly:
            array = ctypes.c_char_p(view.obj) if isinstance(view.obj, bytes) and len(view.obj) == len(view) else bytes(view)
        else:
            array = (ctypes.c_char * len(view)).from_buffer(view)
        return self._check(self._library.lwio_pwrite(self._usable(), array, len(view), offset), self.name)

    def readinto(self, data):
        view = memoryview(data).cast("B")
        n = self._read_at(view, self._position)
        self._position += n
        return n

    def readall(self):
        self._usable()
        rest = max(self.stat().size - self._position, 0)
        data = self.pread(rest, self._position)
        self._position += len(data)
        return data + (super().readall() or b"")

    def write(self, data):
        n = self.pwrite(data, self._position)
        self._position += n
        return n

    def seek(self, offset, whence=io.SEEK_SET):
        self._usable()
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            offset += self.stat().size
        elif whence != io.SEEK_SET:
            raise ValueError("invalid whence: %r" % (whence,))
        if offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        self._position = offset
        return offset

    def tell(self):
        self._usable()
        return self._position

    def truncate(self, size=None):
        if not self._writes:
            raise io.UnsupportedOperation("not writable")
        size = self._position if size is None else size
        self._check(self._library.lwio_truncate(self._usable(), size), self.name)
        return size

    def sync(self):
        """Waits until earlier writes are on stable storage."""
        self._check(self._library.lwio_sync(self._usable()), self.name)

    def lock(self, offset, length, shared=False, timeout=None):
        """Locks a range against all other opens. timeout is in seconds: 0 does not wait, None waits as long as the
        client's calls may take."""
        wait = -1 if timeout is None else int(timeout * 1000)
        flags = _library.LOCK_SHARED if shared else 0
        self._check(self._library.lwio_lock(self._usable(), offset, length, flags, wait), self.name)

    def unlock(self, offset, length):
        """Ends a lock of exactly that range."""
        self._check(self._library.lwio_unlock(self._usable(), offset, length), self.name)
