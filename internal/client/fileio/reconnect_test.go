package fileio

import (
	"net"
	"slices"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
)

func TestBackoffGrowsUntilConnectionProves(t *testing.T) {
	var b paths.Backoff
	var pauses []time.Duration
	for range 20 {
		pauses = append(pauses, b.Next(paths.MaxPause))
	}
	if pauses[0] != 0 || pauses[1] != paths.MinPause || !slices.IsSorted(pauses) || pauses[19] != paths.MaxPause {
		t.Error(pauses)
	}
	b.Lived(0, false)
	if b.Next(paths.MaxPause) != paths.MaxPause {
		t.Error("a connection of no use counts")
	}
	if b.Next(time.Second) != time.Second {
		t.Error("calls wait longer than they may")
	}
	b.Lived(0, true)
	if b.Next(paths.MaxPause) != paths.MinPause {
		t.Error("a connection of use does not count")
	}
	b.Lived(paths.ProvenAfter, false)
	if b.Next(paths.MaxPause) != 0 {
		t.Error("a connection that lived long does not count")
	}
}

// The log entry of a lost connection names the known consequence.
func TestAfterLoss(t *testing.T) {
	for _, c := range []struct {
		reconnect     time.Duration
		conns         int
		require       bool
		closed, ended bool
		want          string
	}{
		{base.DefaultReconnectTimeout, 1, false, false, false, "trying to replace it"},
		{base.DefaultReconnectTimeout, 1, true, false, false, "trying to replace it"},
		{base.DefaultReconnectTimeout, 1, false, false, true, "nothing: the SMB session has ended too"},
		{base.DefaultReconnectTimeout, 1, false, true, true, "nothing: the client is being closed"},
		{-1, 1, false, true, false, "nothing: the client is being closed"},
		{-1, 1, false, false, false, "it is not to be replaced: going on over SMB"},
		{-1, 1, true, false, false, "it is not to be replaced: reads and writes fail"},
		{-1, 2, false, false, false, "it is not to be replaced"},
		{-1, 2, false, false, true, "nothing: the SMB session has ended too"},
	} {
		sess := new(fakeSession)
		client := new(paths.Set)
		client.Smb, client.Paths, client.Cfg = sess, make([]*paths.Path, c.conns), base.Config{ReconnectTimeout: c.reconnect, RequireRDMA: c.require}
		client.Closed.Store(c.closed)
		if c.ended {
			sess.lose(net.ErrClosed)
		}
		if got := client.NewPath(0).AfterLoss(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
