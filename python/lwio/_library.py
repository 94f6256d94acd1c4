"""The functions of liblwio, by ctypes."""

import ctypes
import errno
import os
import threading

ABI_VERSION = 1
NAME = "liblwio.so.1"

OP_READ = 1
LOCK_SHARED = 1

Handle = ctypes.c_uint64


class Options(ctypes.Structure):
    """struct lwio_options"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("user", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("domain", ctypes.c_char_p),
        ("app_instance", ctypes.c_char_p),
        ("timeout_ms", ctypes.c_int64),
        ("reconnect_ms", ctypes.c_int64),
        ("connections", ctypes.c_int),
        ("require_rdma", ctypes.c_int),
        ("require_encryption", ctypes.c_int),
        ("reserved", ctypes.c_int),
    ]


class StatResult(ctypes.Structure):
    """struct lwio_stat"""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("allocated", ctypes.c_uint64),
        ("id", ctypes.c_uint64),
        ("mtime_ns", ctypes.c_int64),
        ("atime_ns", ctypes.c_int64),
        ("ctime_ns", ctypes.c_int64),
        ("btime_ns", ctypes.c_int64),
        ("mode", ctypes.c_uint32),
        ("attributes", ctypes.c_uint32),
    ]


class Dirent(ctypes.Structure):
    """struct lwio_dirent"""

    _fields_ = [("name", ctypes.c_char_p), ("stat", StatResult)]


class Head(ctypes.Structure):
    """struct lwio_head"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("buf", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("result", ctypes.c_int64),
        ("stat", StatResult),
    ]


_int, _int64, _uint64, _size = ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t
_text, _memory, _ref = ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER

# The result and the arguments of each function that the package uses.
_FUNCTIONS = {
    "lwio_abi_version": (_int, []),
    "lwio_version": (_text, []),
    "lwio_error": (_text, []),
    "lwio_dial": (_int, [_text, _ref(Options), _ref(Handle)]),
    "lwio_client_close": (_int, [Handle]),
    "lwio_transport": (_int, [Handle, _memory, _size]),
    "lwio_open": (_int, [Handle, _text, _int, _ref(Handle)]),
    "lwio_close": (_int, [Handle]),
    "lwio_pread": (_int64, [Handle, _memory, _size, _int64]),
    "lwio_pwrite": (_int64, [Handle, _memory, _size, _int64]),
    "lwio_sync": (_int, [Handle]),
    "lwio_truncate": (_int, [Handle, _int64]),
    "lwio_fstat": (_int, [Handle, _ref(StatResult)]),
    "lwio_lock": (_int, [Handle, _uint64, _uint64, _int, _int64]),
    "lwio_unlock": (_int, [Handle, _uint64, _uint64]),
    "lwio_stat": (_int, [Handle, _text, _ref(StatResult)]),
    "lwio_mkdir": (_int, [Handle, _text]),
    "lwio_unlink": (_int, [Handle, _text]),
    "lwio_rmdir": (_int, [Handle, _text]),
    "lwio_rename": (_int, [Handle, _text, _text]),
    "lwio_opendir": (_int, [Handle, _text, _ref(Handle)]),
    "lwio_readdir": (_int, [Handle, _ref(Dirent), _int]),
    "lwio_closedir": (_int, [Handle]),
    "lwio_read_heads": (_int, [Handle, _ref(Head), _int]),
    "lwio_batch_new": (_int, [Handle, _int, _int, _ref(Handle)]),
    "lwio_batch_submit": (_int, [Handle, _memory, _int]),
    "lwio_batch_reap": (_int, [Handle, _memory, _int, _int, _int64]),
    "lwio_batch_close": (_int, [Handle]),
    "lwio_buffer_new": (_int, [Handle, _size, _ref(Handle), _ref(_memory)]),
    "lwio_buffer_free": (_int, [Handle]),
}

_lock = threading.Lock()
_loaded = None  # the library of this process
_of_parent = False  # whether a process that this one was forked from has loaded the library


def _after_fork():
    """Forgets the library of the parent: its threads do not exist in this process."""
    global _lock, _loaded, _of_parent
    _lock = threading.Lock()
    if _loaded is not None:
        _of_parent = True
    _loaded = None


os.register_at_fork(after_in_child=_after_fork)


def _path():
    """Returns the path or the name of the library."""
    if os.environ.get("LWIO_LIBRARY"):
        return os.environ["LWIO_LIBRARY"]
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME)
    return beside if os.path.exists(beside) else NAME


def _real_path(library):
    """Returns the file of a library that is loaded in the parent."""
    if os.path.sep in library:
        return library
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.rstrip("\n").endswith("/" + library):
                return line[line.index("/") :].rstrip("\n")
    raise OSError(errno.ENOENT, "the file of the library is not found", library)


def _copy(path):
    """Loads a copy of a file of a library, with a state of its own, and returns it."""
    memory = os.memfd_create("liblwio", os.MFD_CLOEXEC)
    try:
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            sent = 0
            while sent < size:
                sent += os.sendfile(memory, f.fileno(), sent, size - sent)
        return ctypes.CDLL("/proc/self/fd/%d" % memory)
    finally:
        os.close(memory)


def load():
    """Returns the library. The first call of a process loads it.

    In a forked child of a process that has used the library, it is a copy: the threads of the first one exist
    in the parent only.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            path = _path()
            try:
                library = _copy(_real_path(path)) if _of_parent else ctypes.CDLL(path)
            except OSError as e:
                raise OSError(
                    errno.ENOENT,
                    "lwio: cannot load %s (%s): install it, or name it by LWIO_LIBRARY" % (path, e),
                ) from e
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
            if library.lwio_abi_version() != ABI_VERSION:
                raise OSError(errno.ENOEXEC, "lwio: %s has another version of the interface" % path)
            _loaded = library
        return _loaded


def error(library, result, name=None):
    """Returns the OSError of a result below 0."""
    text = library.lwio_error().decode("utf-8", "replace")
    return OSError(-result, text or os.strerror(-result), name)
