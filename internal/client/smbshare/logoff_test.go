package smbshare_test

import (
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/smbshare"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
)

// smbLogoff is the command LOGOFF.
const smbLogoff = 0x02

// Close ends the opens at the server, also if the connection is lost before it, or the LOGOFF or its response
// is lost.
//
// Source: [MS-SMB2 3.3.5.6]
func TestCloseAfterLossEndsOpens(t *testing.T) {
	first := smbshare.Range{Off: 0, Len: 1}
	lose := func(fate faultconn.Fate) func(*faultconn.Link) {
		return func(link *faultconn.Link) {
			var lost atomic.Bool
			link.Judge(func(command uint16) faultconn.Fate {
				if command == smbLogoff && !lost.Swap(true) {
					return fate
				}
				return faultconn.Pass
			})
		}
	}
	for name, breaks := range map[string]func(*faultconn.Link){
		"connection":         (*faultconn.Link).Down,
		"LOGOFF":             lose(faultconn.LoseRequest),
		"response to LOGOFF": lose(faultconn.LoseResponse),
	} {
		t.Run(name, func(t *testing.T) {
			s, link := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true}), new(faultconn.Link)
			sess := connectBy(t, s, link)
			h := create(t, sess, "f")
			if err := h.Lock(t.Context(), first, true, false, nil); err != nil {
				t.Fatal(err)
			}
			breaks(link)
			closed := make(chan error)
			go func() { closed <- sess.Close(t.Context()) }()
			for sess.Err() == nil { // the close begins without a connection
				time.Sleep(time.Millisecond)
			}
			link.Up()
			if err := <-closed; err != nil {
				t.Error(err)
			}
			other, err := connect(t, s).Open(t.Context(), smbshare.OpenRequest{
				Name: "f", Access: smbshare.AccessRead | smbshare.AccessWrite, Share: smbshare.ShareAll,
				Disposition: smbshare.DispositionOpen, Options: smbshare.OptionNonDirectory,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := other.Lock(t.Context(), first, true, false, nil); err != nil {
				t.Errorf("a lock is left: %v", err)
			}
		})
	}
}

// A close without files makes no other connection.
func TestCloseWithoutFilesLeavesALostConnection(t *testing.T) {
	s, link := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true}), new(faultconn.Link)
	sess := connectBy(t, s, link)
	if err := create(t, sess, "f").Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	link.Down()
	if err := sess.Close(t.Context()); err != nil { // which would wait for the end of the context
		t.Error(err)
	}
}

// connectBy makes a session over a link.
func connectBy(t *testing.T, s *lwiotest.Server, link *faultconn.Link) smbshare.Session {
	t.Helper()
	to, err := base.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	cfg := (&base.Config{DialContext: link.DialContext}).WithDefaults()
	if err := cfg.Apply(to); err != nil {
		t.Fatal(err)
	}
	raw, err := link.DialContext(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	sess, err := smbshare.NewSession(t.Context(), raw, to, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}
