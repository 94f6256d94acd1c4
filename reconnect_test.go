package lwio

import (
	"net"
	"slices"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	var b backoff
	var pauses []time.Duration
	for range 20 {
		pauses = append(pauses, b.next(maxPause))
	}
	if pauses[0] != 0 || pauses[1] != minPause || !slices.IsSorted(pauses) || pauses[19] != maxPause {
		t.Error(pauses)
	}
	b.lived(0, false)
	if b.next(maxPause) != maxPause {
		t.Error("a connection of no use counts")
	}
	if b.next(time.Second) != time.Second {
		t.Error("calls wait longer than they may")
	}
	b.lived(0, true)
	if b.next(maxPause) != minPause {
		t.Error("a connection of use does not count")
	}
	b.lived(provenAfter, false)
	if b.next(maxPause) != 0 {
		t.Error("a connection that lived long does not count")
	}
}

// What the log says of a lost connection is what is known to follow.
func TestAfterLoss(t *testing.T) {
	for _, c := range []struct {
		reconnect     time.Duration
		rails         int
		require       bool
		closed, ended bool
		want          string
	}{
		{DefaultReconnect, 1, false, false, false, "trying to replace it"},
		{DefaultReconnect, 1, true, false, false, "trying to replace it"},
		{DefaultReconnect, 1, false, false, true, "nothing: the SMB session has ended too"},
		{DefaultReconnect, 1, false, true, true, "nothing: the client is being closed"},
		{-1, 1, false, true, false, "nothing: the client is being closed"},
		{-1, 1, false, false, false, "it is not to be replaced: going on over SMB"},
		{-1, 1, true, false, false, "it is not to be replaced: reads and writes fail"},
		{-1, 2, false, false, false, "it is not to be replaced"},
		{-1, 2, false, false, true, "nothing: the SMB session has ended too"},
	} {
		sess := new(fakeSession)
		client := &Client{sess: sess, rails: make([]*rail, c.rails), cfg: Config{Reconnect: c.reconnect, RequireRDMA: c.require}}
		client.closed.Store(c.closed)
		if c.ended {
			sess.lose(net.ErrClosed)
		}
		if got := client.newRail(0).afterLoss(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
