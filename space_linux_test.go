package lwio_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"lwio"
	"lwio/lwiotest"
)

// Space has the numbers of the file system that the server serves. Other programs may use it meanwhile.
func TestSpaceIsThatOfTheServer(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		var want unix.Statfs_t
		must(t, unix.Statfs(s.Dir, &want))
		got, err := c.Space(t.Context())
		if err != nil || got.Total != int64(want.Blocks)*want.Bsize || got.BlockSize != want.Bsize {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		if got.Available > got.Free || got.Free > got.Total || got.Free <= 0 {
			t.Errorf("%+v", got)
		}
	})
}
