package server

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// The client's window bounds each RDMA write, and the server's own a READ: the two are
// independent.
//
// Source: [LWIO §Connection Authentication] [LWIO §Read] [OP-6] [OP-60] [OP-60b]
func TestClientWindowBoundsRDMAWrites(t *testing.T) { onEach(t, testClientWindowBoundsRDMAWrites) }

func testClientWindowBoundsRDMAWrites(t *testing.T, on string) {
	const most = 256 << 10
	for _, window := range []uint32{512, 1001, 4096, 64 << 10, 1 << 20, 1<<32 - 1} {
		w := new(watch)
		v := newEnv(t, envConfig{on: on, limits: Limits{MaxRDMAWindowSize: most}, provider: w.wrap(providers[on](), "server")})
		data := content(1 << 20)
		n := v.negotiate(v.sess)
		c := v.connect(n)
		c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.MaxRdmaWindowSize = window }})
		fid := c.register(v.file("a", data))
		before := len(w.seen())
		c.want(ntstatus.Success, most, c.readHeader(fid, 5, most, 0), nil)
		if !bytes.Equal(c.in.Bytes()[:most], data[5:][:most]) {
			t.Errorf("window %d: the data read differs", window)
		}
		c.want(ntstatus.InvalidParameter, 0, c.readHeader(fid, 5, most+1, 0), nil)
		var body []byte
		to := c.in.RemoteAddr()
		for i := range 100 {
			body = wire.RDMARegion{DataVa: to.Addr + uint64(i)*4096, DataMh: uint32(to.Token), Length: 4096}.AppendTo(body)
		}
		c.want(ntstatus.Success, 100*4096, by(wire.NewVecRead(fid, 9, 100*4096, 100, 4096), completion{Cookie: 1}), body)
		if !bytes.Equal(c.in.Bytes()[:100*4096], data[9:][:100*4096]) {
			t.Errorf("window %d: the data of a vectored read differs", window)
		}
		sum := 0
		for _, p := range w.seen()[before:] {
			if p.op != rdma.OpWrite {
				continue
			}
			if sum += p.size; p.size > int(min(window, 1<<30)) {
				t.Errorf("window %d: an RDMA write of %d bytes", window, p.size)
			}
		}
		if sum < most+100*4096 {
			t.Errorf("window %d: %d bytes were seen", window, sum)
		}
		v.check(c)
	}
}

// A client may have any page size that the text can express. Its collapsed writes have pages of that
// size only.
//
// Source: [LWIO §Connection Authentication] [LWIO §Vectored Write] [OP-28] [OP-76] [OP-79]
func TestClientPageSizeRulesCollapsedWrites(t *testing.T) {
	onEach(t, testClientPageSizeRulesCollapsedWrites)
}

func testClientPageSizeRulesCollapsedWrites(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	for page := uint16(512); page <= 32<<10 && page != 0; page *= 2 {
		n := v.negotiate(v.sess)
		c := v.connect(n)
		c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.PageSize = page }})
		v.file("a", nil).Close()
		fid := c.register(v.open("a", vfs.WriteData, vfs.NoIntermediateBuffering, v.sess))
		data := content(int(page))
		length := 3*uint32(page) + 17
		c.want(ntstatus.Success, length, by(wire.NewCollapse(fid, 1, length, page), completion{Cookie: 1}), data)
		got, err := os.ReadFile(filepath.Join(v.dir, "a"))
		if want := append([]byte{0}, bytes.Repeat(data, 4)[:length]...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("pages of %d: the file differs, %v", page, err)
		}
		other := max(page/2, 512)
		if other == page {
			other = 2 * page
		}
		c.want(ntstatus.InvalidParameter, 0, by(wire.NewCollapse(fid, 1, 100, other), completion{Cookie: 1}), data[:100])
		v.check(c)
		c.connector.Close()
	}
	for _, page := range []uint16{0, 1, 256, 4095, 4097, 6144, 33 << 10, 1<<16 - 1} {
		n := v.negotiate(v.sess)
		c := v.connect(n)
		msg, _ := c.authMessage(n, authOptions{mutate: func(p *wire.AuthParams) { p.PageSize = page }})
		c.wantDenied(msg)
	}
}
