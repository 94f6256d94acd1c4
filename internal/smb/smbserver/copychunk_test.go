package smbserver

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
)

const (
	fsctlCopyChunk      = 0x001440F2
	fsctlCopyChunkWrite = 0x001480F2
)

// chunk is one range of a copy within the server.
type chunk struct {
	from, to uint64
	n        uint32
}

func copyInput(key []byte, list ...chunk) []byte {
	b := le.AppendUint32(bytes.Clone(key[:24]), uint32(len(list)))
	b = le.AppendUint32(b, 0)
	for _, x := range list {
		b = le.AppendUint64(b, x.from)
		b = le.AppendUint64(b, x.to)
		b = le.AppendUint32(b, x.n)
		b = le.AppendUint32(b, 0x55555555)
	}
	return b
}

// keyOf returns the resume key of an open.
func (c *raw) keyOf(id [16]byte) []byte {
	c.t.Helper()
	return c.want(ntstatus.Success, cmdIoctl, ioctlBody(id, fsctlResumeKey, nil, 32)).body[48:72]
}

// copies copies ranges and checks the status and the three numbers of the output.
func (c *raw) copies(code uint32, to [16]byte, in []byte, want ntstatus.Status, numbers ...uint32) {
	c.t.Helper()
	r := c.call(cmdIoctl, ioctlBody(to, code, in, 12))
	if r.status != want {
		c.t.Fatalf("%v, want %v", r.status, want)
	}
	var out []byte
	for _, n := range numbers {
		out = le.AppendUint32(out, n)
	}
	if numbers == nil {
		if le.Uint16(r.body) != 9 {
			c.t.Errorf("body %x", r.body)
		}
	} else if le.Uint32(r.body[4:]) != code || !bytes.Equal(r.body[48:], out) {
		c.t.Errorf("body %x, want output %x", r.body, out)
	}
}

// A copy within the server copies the chunks up to the first that fails, and reports how many.
//
// Source: [MS-SMB2 3.3.5.15] [MS-SMB2 2.2.31] [MS-SMB2 2.2.32]
func TestCopyWithinServer(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i ^ i>>9)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	c := mount(t, addr, "data")
	from, to := c.mustCreate(rw("f")), c.mustCreate(rw("g"))
	key := c.keyOf(from)
	content := func(want []byte) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, "g")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
		}
	}
	const mib = 1 << 20
	c.copies(fsctlCopyChunk, to, copyInput(key, chunk{0, 0, mib}, chunk{mib, mib, mib}, chunk{2 * mib, 2 * mib, mib}), ntstatus.Success, 3, 0, 3*mib)
	content(data)
	c.copies(fsctlCopyChunkWrite, to, copyInput(key), ntstatus.Success, 0, 0, 0)
	// The second chunk ends behind the source.
	c.copies(fsctlCopyChunkWrite, to, copyInput(key, chunk{5, 0, 10}, chunk{3*mib - 5, 10, 6}, chunk{0, 20, 1}), ntstatus.InvalidViewSize, 1, 0, 10)
	content(append(bytes.Clone(data[5:15]), data[10:]...))
	c.copies(fsctlCopyChunkWrite, to, copyInput(key, chunk{3 * mib, 0, 1}), ntstatus.InvalidViewSize, 0, 0, 0)
	c.copies(fsctlCopyChunkWrite, to, copyInput(key, chunk{1 << 63, 0, 1}), ntstatus.InvalidParameter, 0, 0, 0)
	c.copies(fsctlCopyChunkWrite, to, copyInput(key, chunk{0, 1 << 63, 1}), ntstatus.InvalidParameter, 0, 0, 0)
	// The ranges of a chunk overlap.
	c.copies(fsctlCopyChunk, from, copyInput(key, chunk{0, 100, mib}), ntstatus.Success, 1, 0, mib)
	if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || !bytes.Equal(got[100:100+mib], data[:mib]) {
		t.Errorf("a copy to an overlapping range is wrong, %v", err)
	}
	// Locks of other opens.
	other := c.mustCreate(rw("f"))
	c.want(ntstatus.Success, cmdLock, lockBody(other, element{10, 1, lockExclusive}))
	c.copies(fsctlCopyChunk, to, copyInput(key, chunk{0, 0, 10}, chunk{0, 0, 11}), ntstatus.FileLockConflict, 1, 0, 10)
	c.want(ntstatus.Success, cmdClose, closeBody(other, 0))
	c.want(ntstatus.Success, cmdClose, closeBody(from, 0))
	c.copies(fsctlCopyChunk, to, copyInput(key, chunk{0, 0, 10}), ntstatus.ObjectNameNotFound)
}

// A copy beyond the limits has the limits as output, and copies nothing.
//
// Source: [MS-SMB2 3.3.5.15]
func TestCopyWithinServerLimits(t *testing.T) {
	for _, size := range []int{DefaultMaxTransferSize, minTransferSize} {
		_, addr, dir := testServer(t, func(c *Config) { c.MaxTransferSize = size })
		c := mount(t, addr, "data")
		from, to := c.mustCreate(rw("f")), c.mustCreate(rw("g"))
		key := c.keyOf(from)
		for name, list := range map[string][]chunk{
			"too many": make([]chunk, 257), "no length": {{n: 0}}, "too long": {{n: uint32(size) + 1}},
			"too long in total": bytesOf(1<<20, 17), "overflow": bytesOf(1<<31, 2), "all ones": bytesOf(^uint32(0), 256),
		} {
			if name == "too long in total" && size < 1<<20 {
				list = bytesOf(uint32(size), 256)
				list = append(list, chunk{n: 1})
			}
			t.Log(name)
			c.copies(fsctlCopyChunk, to, copyInput(key, list...), ntstatus.InvalidParameter, 256, uint32(size), 16<<20)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "g")); err != nil || len(b) != 0 {
			t.Errorf("%d bytes were copied, %v", len(b), err)
		}
	}
}

// bytesOf returns chunks of n bytes.
func bytesOf(n uint32, count int) (list []chunk) {
	for range count {
		list = append(list, chunk{n: n})
	}
	return list
}

// A copy takes the rights of both opens, the session of the source, and the encryption of its share.
//
// Source: [MS-SMB2 3.3.5.15]
func TestCopyWithinServerNeedsRights(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := encrypted(t, addr, 0x0311, smbauth.AES128GCM)
	c.mustConnect("data")
	data := c.tree
	from, to := c.mustCreate(rw("f")), c.mustCreate(rw("g"))
	c.want(ntstatus.Success, cmdWrite, writeBody(from, 0, []byte("content")))
	key := c.keyOf(from)
	only := func(name string, access uint32) [16]byte {
		return c.mustCreate(create{name: name, access: access, share: 7, disposition: 1})
	}
	one := chunk{n: 1}
	in := copyInput(key, one)
	const denied = ntstatus.AccessDenied
	c.copies(fsctlCopyChunk, only("g", 1), in, denied)
	c.copies(fsctlCopyChunk, only("g", 2), in, denied)
	c.copies(fsctlCopyChunkWrite, only("g", 1), in, denied)
	c.copies(fsctlCopyChunkWrite, only("g", 2), in, ntstatus.Success, 1, 0, 1)
	c.copies(fsctlCopyChunk, to, copyInput(c.keyOf(only("f", 2)), one), denied)
	c.copies(fsctlCopyChunk, to, copyInput(c.keyOf(only("f", 0x20)), one), ntstatus.Success, 1, 0, 1)
	c.copies(fsctlCopyChunk, to, copyInput(c.keyOf(c.mustCreate(listable(""))), one), ntstatus.InvalidDeviceRequest)
	c.mustConnect("secret")
	key = c.keyOf(c.mustCreate(rw("f")))
	c.tree, c.plain = data, true
	c.copies(fsctlCopyChunk, to, copyInput(key, one), denied)
	c.plain = false
	c.copies(fsctlCopyChunk, to, copyInput(key, one), ntstatus.Success, 1, 0, 1)

	other := mount(t, addr, "data")
	other.copies(fsctlCopyChunk, other.mustCreate(rw("g")), in, ntstatus.ObjectNameNotFound)
	for n := range in {
		c.copies(fsctlCopyChunk, to, in[:n], ntstatus.InvalidParameter)
	}
	c.want(ntstatus.InvalidParameter, cmdIoctl, ioctlBody(to, fsctlCopyChunk, in, 11))
	other.mustConnect("IPC$")
}
