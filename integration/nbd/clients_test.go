package nbd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lwio/internal/test/skip"
)

// transports are the transports of the tests.
var transports = []string{"shm", "iwarp"}

// onTransports runs a test over each transport.
func onTransports(t *testing.T, test func(t *testing.T, transport string)) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) { test(t, transport) })
	}
}

func TestQemuImgConvertsAndCompares(t *testing.T) {
	need(t, "qemu-img")
	onTransports(t, func(t *testing.T, transport string) {
		d := serve(t, transport, nil)
		dir := t.TempDir()
		local := filepath.Join(dir, "local.raw")
		content := randomBytes(imageSize)
		slices.Reverse(content)
		clear(content[5<<20 : 9<<20]) // qemu-img writes zeroes by WRITE_ZEROES
		write(t, local, content)
		output(t, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "16", local, d.uri)
		if !bytes.Equal(d.content(t), content) {
			t.Error("the image has other content than was written")
		}
		output(t, "qemu-img", "compare", "-f", "raw", "-F", "raw", local, d.uri)
		copied := filepath.Join(dir, "copy.qcow2")
		output(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", d.uri, copied)
		output(t, "qemu-img", "compare", "-f", "qcow2", "-F", "raw", copied, local)
	})
}

// A qcow2 image works in an export: QEMU writes its own metadata, with flushes.
func TestQemuWritesQcow2(t *testing.T) {
	need(t, "qemu-img", "qemu-io")
	d := serve(t, "shm", nil)
	output(t, "qemu-img", "create", "-f", "qcow2", d.uri, "32M")
	output(t, "qemu-io", "-f", "qcow2", "-c", "write -P 0x5a 1M 3M", "-c", "write -z 2M 64k", "-c", "write -f -P 7 8M 4k", "-c", "flush", d.uri)
	got := output(t, "qemu-io", "-f", "qcow2", "-c", "read -P 0x5a 1M 1M", "-c", "read -P 0 2M 64k", "-c", "read -P 7 8M 4k", "-c", "read -P 0 16M 1M", d.uri)
	if strings.Contains(got, "Pattern verification failed") {
		t.Error(got)
	}
	output(t, "qemu-img", "check", "-f", "qcow2", d.uri)
}

func TestNbdcopyBothWays(t *testing.T) {
	need(t, "nbdcopy")
	onTransports(t, func(t *testing.T, transport string) {
		d := serve(t, transport, nil)
		local, back := filepath.Join(t.TempDir(), "local"), filepath.Join(t.TempDir(), "back")
		content := randomBytes(imageSize)
		slices.Reverse(content)
		write(t, local, content)
		output(t, "nbdcopy", "--flush", local, d.uri)
		if !bytes.Equal(d.content(t), content) {
			t.Error("the image has other content than was written")
		}
		output(t, "nbdcopy", d.uri, back)
		if !bytes.Equal(read(t, back), content) {
			t.Error("other content was read")
		}
		output(t, "nbdcopy", "--synchronous", d.uri, back)
		if !bytes.Equal(read(t, back), content) {
			t.Error("other content was read one after another")
		}
	})
}

func TestNbdinfoDescribesExports(t *testing.T) {
	need(t, "nbdinfo")
	d := serve(t, "shm", []string{"--export-name", "a name", "--read-only"})
	var info struct {
		Protocol   string
		Structured bool
		Exports    []map[string]any
	}
	if err := json.Unmarshal([]byte(output(t, "nbdinfo", "--json", "--list", d.uri)), &info); err != nil {
		t.Fatal(err)
	}
	if info.Protocol != "newstyle-fixed" || len(info.Exports) != 1 {
		t.Fatalf("%+v", info)
	}
	for name, want := range map[string]any{
		"export-name": "a name", "export-size": float64(imageSize), "is_read_only": true, "can_multi_conn": true, "can_df": true,
		"can_cache": true, "can_flush": true, "can_fua": false, "can_trim": false, "can_zero": false,
		"block_size_minimum": 1.0, "block_size_preferred": 4096.0, "block_size_maximum": float64(32 << 20),
	} {
		if got := info.Exports[0][name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// debianPython has the module nbd of Debian, which nbdsh uses too.
const debianPython = "/usr/bin/python3"

// errorsOfNbdsh are cases in the language of nbdsh: a request that libnbd itself would refuse is sent all the same.
const errorsOfNbdsh = `
import errno, nbd
h = nbd.NBD()
BEFORE
h.set_strict_mode(0)
h.connect_uri(URI)
size = h.get_size()

def fails(want, f, *a, **k):
    try:
        f(*a, **k)
    except nbd.Error as e:
        assert e.errnum == want, (f.__name__, a, e.errno, e.string)
    else:
        raise AssertionError((f.__name__, a, "no error"))

fails(errno.EINVAL, h.pread, 512, size)
fails(errno.EINVAL, h.pread, 2, size - 1)
fails(errno.EINVAL, h.pread, 33 << 20, 0)
fails(errno.EINVAL, h.cache, 2, size - 1)
fails(errno.EINVAL, h.trim, 512, 0)
fails(errno.EINVAL, h.pread, 512, 0, flags=1 << 12)
if READONLY:
    fails(errno.EPERM, h.pwrite, b"x" * 512, 0)
    fails(errno.EPERM, h.zero, 512, 0)
else:
    fails(errno.ENOSPC, h.pwrite, b"x" * 512, size)
    fails(errno.ENOSPC, h.pwrite, b"xx", size - 1)
    fails(errno.ENOSPC, h.zero, 2, size - 1)
    fails(errno.ENOTSUP, h.zero, 4096, 0, flags=nbd.CMD_FLAG_FAST_ZERO)
    fails(errno.EINVAL, h.pwrite, b"x" * 512, 0, flags=nbd.CMD_FLAG_DF)
    h.pwrite(b"abc", 1, flags=nbd.CMD_FLAG_FUA)
    assert h.pread(5, 0)[1:4] == b"abc"
    h.zero(3, 1, flags=nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_NO_HOLE)
    assert h.pread(5, 0)[1:4] == b"\0\0\0"
    h.flush()
assert h.can_meta_context("base:allocation") == 0
# Many requests in flight on one connection are answered, in any order.
bufs = [nbd.Buffer(4096) for i in range(200)]
cookies = [h.aio_pread(b, 4096 * i) for i, b in enumerate(bufs)]
while h.aio_in_flight() > 0:
    h.poll(-1)
for c in cookies:
    assert h.aio_command_completed(c)
for i, b in enumerate(bufs):
    assert bytes(b.to_bytearray()) == bytes(h.pread(4096, 4096 * i)), i
h.shutdown()
`

func TestNbdshErrors(t *testing.T) {
	if exec.Command(debianPython, "-c", "import nbd").Run() != nil {
		skip.Test(t, "a program is not installed", "nbdsh")
	}
	for _, c := range []struct {
		name     string
		readOnly bool
		before   string
	}{
		{"structured replies", false, ""},
		{"simple replies", false, "h.set_request_structured_replies(False)"},
		{"read-only", true, ""},
		{"oldest handshake flags", false, "h.set_handshake_flags(0)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var flags []string
			if c.readOnly {
				flags = []string{"--read-only"}
			}
			d := serve(t, "shm", flags)
			script := filepath.Join(t.TempDir(), "script.py")
			head := fmt.Sprintf("URI = %q\nREADONLY = %s\n", d.uri, map[bool]string{true: "True", false: "False"}[c.readOnly])
			write(t, script, []byte(head+strings.Replace(errorsOfNbdsh, "BEFORE", c.before, 1)))
			output(t, debianPython, script)
		})
	}
}

func TestFioVerifies(t *testing.T) {
	need(t, "fio")
	if !strings.Contains(output(t, "fio", "--enghelp"), "nbd") {
		skip.Test(t, "fio is without its nbd engine")
	}
	onTransports(t, func(t *testing.T, transport string) {
		d := serve(t, transport, nil)
		output(t, "fio", "--name=verify", "--verify_state_save=0", "--ioengine=nbd", "--uri="+d.uri, "--rw=randwrite", "--bsrange=512-128k", "--bs_unaligned=1",
			"--iodepth=32", fmt.Sprintf("--size=%d", imageSize), "--verify=crc32c", "--verify_fatal=1", "--fsync=64", "--randrepeat=0", "--norandommap=0")
		output(t, "fio", "--name=mixed", "--verify_state_save=0", "--ioengine=nbd", "--uri="+d.uri, "--rw=randrw", "--bs=4k", "--iodepth=16",
			fmt.Sprintf("--size=%d", imageSize/4), "--verify=md5", "--verify_fatal=1")
	})
}
