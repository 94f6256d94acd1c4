package server

import (
	"testing"

	"golang.org/x/sys/unix"

	"lwio/internal/ntstatus"
)

// READs of what is locked in memory are counted, those too that are answered together.
//
// Source: [LWIO §Read]
func TestResidentReads(t *testing.T) { onEach(t, testResidentReads) }

func testResidentReads(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	var st unix.Statfs_t
	if err := unix.Statfs(v.dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Type != unix.EXT4_SUPER_MAGIC && st.Type != unix.XFS_SUPER_MAGIC && st.Type != unix.BTRFS_SUPER_MAGIC && st.Type != unix.TMPFS_MAGIC {
		t.Skipf("the scratch directory is on a file system (%#x) that is not mapped", st.Type)
	}
	c := v.client()
	fid := c.register(v.file("file", content(1<<16)))
	read := c.readHeader(fid, 512, 100, 0)
	for v.fs.Stats().Resident.Promotions == 0 {
		c.want(ntstatus.Success, 100, read, nil)
		if v.fs.Stats().Resident.Refused > 0 {
			t.Skip("this process may lock too little memory")
		}
	}
	const reads = 3
	before := v.fs.Stats().Resident.Reads
	for range reads {
		c.send(read, nil)
	}
	for range reads {
		c.reply()
	}
	if now := v.fs.Stats().Resident.Reads; now != before+reads {
		t.Errorf("%d reads are counted, not %d", now-before, reads)
	}
}
