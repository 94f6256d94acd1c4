package server

import (
	"testing"

	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// Short READs that come together are read together: before anything else is done for the
// client, when there are enough, and at the latest before the answers go out. What is alone,
// long or locked is not kept for that.
//
// Source: [LWIO §Read]
func TestReadsTogether(t *testing.T) {
	to := wire.Completion{Cookie: 3}
	short := wire.NewRead(1, 0, wire.RDMARegion{Length: 1000}, to)
	long := wire.NewRead(1, 0, wire.RDMARegion{Length: togetherSize + 1}, to)
	locked := wire.NewRead(1, 5000, wire.RDMARegion{Length: 10}, to)
	cancel := wire.NewCancel(5, 2)
	for _, tt := range []struct {
		what  string
		msg   wire.Header
		alone bool // nothing comes with it
		kept  int  // before it, of READs
		want  int  // after it
	}{
		{"a READ alone", short, true, 0, 0},
		{"the first of several", short, false, 0, 1},
		{"the last of several", short, true, 1, 2},
		{"another request", cancel, false, 2, 0},
		{"a long one", long, false, 2, 2},
		{"one that is locked", locked, false, 2, 2},
	} {
		t.Run(tt.what, func(t *testing.T) {
			c, q := newFuzzConn(t)
			other, _, err := c.e.fs.Open(vfs.OpenRequest{
				Share: "s", Path: "f", Access: vfs.ReadData | vfs.WriteData, Owner: newFakeSession(2), ShareMode: vfs.ShareAll, Disposition: vfs.OpenExisting,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := other.TryLock(vfs.Lock{Range: vfs.Range{Off: 5000, Len: 1}, Exclusive: true}); err != nil {
				t.Fatal(err)
			}
			handle := func(h wire.Header) {
				r, _ := q.arrive(c, h.AppendTo(nil))
				if err := c.handle(&r); err != nil {
					t.Fatal(err)
				}
			}
			c.rest = make([]rdma.Result, 1)
			for range tt.kept {
				handle(short)
			}
			if tt.alone {
				c.rest = nil
			}
			handle(tt.msg)
			if len(c.short) != tt.want {
				t.Errorf("%d are kept, not %d", len(c.short), tt.want)
			}
			c.flush()
			if len(c.short) != 0 {
				t.Errorf("%d are kept for good", len(c.short))
			}
			c.jobs.Wait()
			if err := q.settle(c); err != nil {
				t.Fatal(err)
			}
			q.finish(t, c)
		})
	}
}
