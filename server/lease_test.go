package server

import (
	"sync"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// A WRITE over RDMA breaks the lease of another client before it has its answer: a lease to read at once, and
// with the right to delay a close by a break that the client acknowledges.
//
// Source: [MS-FSA 2.1.4.12], [LWIO §Write]
func TestWriteBreaksLeases(t *testing.T) { onEach(t, testWriteBreaksLeases) }

func testWriteBreaksLeases(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{})
	o := v.file("a", content(5000))
	defer o.Close()
	fid := c.register(o)
	for state, ack := range map[vfs.LeaseState]bool{vfs.LeaseRead: false, vfs.LeaseRead | vfs.LeaseHandle: true} {
		var mu sync.Mutex
		var breaks []vfs.LeaseBreak
		key := vfs.LeaseKey{Client: [16]byte{1}}
		reader, _, err := v.fs.Open(vfs.OpenRequest{
			Share: "share", Path: "a", Access: vfs.ReadData, Disposition: vfs.OpenExisting, ShareMode: vfs.ShareAll, Owner: "another",
			Lease: &vfs.LeaseRequest{Key: key, State: state, Broken: func(b vfs.LeaseBreak) vfs.LeaseReach {
				mu.Lock()
				defer mu.Unlock()
				breaks = append(breaks, b)
				return vfs.LeaseReached
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := reader.Lease().State; got != state {
			t.Fatalf("granted %b", got)
		}
		for range 2 {
			c.want(ntstatus.Success, 100, writeHeader(fid, 7, 100), content(100))
		}
		c.want(ntstatus.Success, 10, c.readHeader(fid, 0, 10, 0), nil) // breaks nothing
		mu.Lock()
		if len(breaks) != 1 || breaks[0].To != 0 || breaks[0].Ack != ack {
			t.Errorf("lease %b: breaks %+v", state, breaks)
		}
		mu.Unlock()
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
