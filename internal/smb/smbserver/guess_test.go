package smbserver

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"lwio/internal/ntstatus"
)

// heard passes on the messages that are logged.
type heard chan string

func (h heard) Enabled(context.Context, slog.Level) bool { return true }
func (h heard) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h heard) WithGroup(string) slog.Handler            { return h }
func (h heard) Handle(_ context.Context, r slog.Record) error {
	h <- r.Message
	return nil
}

// wait returns once the message has been logged.
func (h heard) wait(message string) {
	for <-h != message {
	}
}

// A connection has five attempts, whether it succeeds in between or not.
//
// Source: [MS-SMB2 3.3.5.5.3] (the limit is ours)
func TestGuessingIsCut(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	for i := range 5 {
		c.session = 0
		if i == 3 {
			c.mustSetup(testUser, testPassword)
			c.signer, c.session = nil, 0
		}
		if r := c.setup(testUser, "wrong", 0); r.status != ntstatus.LogonFailure {
			t.Fatalf("attempt %d: %v", i, r.status)
		}
	}
	c.wantCut()
	if n := s.Stats().AuthFailures; n != 5 {
		t.Errorf("%d failures counted", n)
	}
	mount(t, addr, "data")
}

// A failed attempt is answered late. That holds up neither other connections nor
// the end of the server.
//
// Source: [MS-SMB2 3.3.5.5.3] (the delay is ours)
func TestFailuresAreAnsweredLate(t *testing.T) {
	log := make(heard, 100)
	s, addr, _ := testServer(t, func(c *Config) { c.FailureDelay, c.Logger = time.Hour, slog.New(log) })
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	c.send(c.message(cmdSessionSetup, setupBody([]byte("nonsense"), 0)))
	log.wait("smb: authentication failed")
	mount(t, addr, "data").want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	s.Close()
	c.wantCut() // and there was no answer before
}

// Nor does the answer come early on a connection that is about to be cut, as one is
// that makes way for others.
//
// Source: [MS-SMB2 3.3.5.5.3] (the delay is ours)
func TestFailuresAreNotAnsweredByACut(t *testing.T) {
	log := make(heard, 100)
	s, addr, _ := testServer(t, func(c *Config) { c.FailureDelay, c.Logger = time.Hour, slog.New(log) })
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	c.send(c.message(cmdSessionSetup, setupBody([]byte("nonsense"), 0)))
	log.wait("smb: authentication failed")
	s.connections()[0].cancel(errEvicted) // the first half of a cut
	c.wantCut()
}
