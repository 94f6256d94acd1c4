"""Files of an LWIO server.

    import lwio
    with lwio.Client("lwio://alice:secret@server/data") as client:
        with client.open("big.iso") as f:
            f.seek(4096)
            data = f.read(4096)

Client.open returns file objects of the io module. lwio.fs has a file system for fsspec, under the protocol
"lwio". Errors are OSError and its subclasses, with errno.

The package needs liblwio.so.1. It loads the library with the first Client, once in each process: the
variable LWIO_LIBRARY names it, or it is beside this package, or the system finds it.
"""

from lwio.client import Client, RawFile, Stat

__all__ = ["Client", "RawFile", "Stat"]
__version__ = "0.1.0"
