package smbserver

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"lwio/internal/ntstatus"
)

// logMessages is a log handler that passes its messages on.
type logMessages chan string

func (h logMessages) Enabled(context.Context, slog.Level) bool { return true }
func (h logMessages) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h logMessages) WithGroup(string) slog.Handler            { return h }
func (h logMessages) Handle(_ context.Context, r slog.Record) error {
	h <- r.Message
	return nil
}

// wait returns once a message has been logged.
func (h logMessages) wait(message string) {
	for <-h != message {
	}
}

// A connection has five failed attempts, with or without a success between them.
//
// Source: [MS-SMB2 3.3.5.5.3] (the limit is ours)
func TestPasswordGuessingIsCut(t *testing.T) {
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

// The response to a failed attempt is delayed. The delay affects neither other connections
// nor Close.
//
// Source: [MS-SMB2 3.3.5.5.3] (the delay is ours)
func TestFailedAuthenticationIsDelayed(t *testing.T) {
	log := make(logMessages, 100)
	s, addr, _ := testServer(t, func(c *Config) { c.FailureDelay, c.Logger = time.Hour, slog.New(log) })
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	c.send(c.message(cmdSessionSetup, setupBody([]byte("nonsense"), 0)))
	log.wait("smb: authentication failed")
	mount(t, addr, "data").want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	s.Close()
	c.wantCut() // without a response before
}

// A delayed response is not sent early on a connection that is being cut, such as an evicted
// one.
//
// Source: [MS-SMB2 3.3.5.5.3] (the delay is ours)
func TestCutSendsNoDelayedResponse(t *testing.T) {
	log := make(logMessages, 100)
	s, addr, _ := testServer(t, func(c *Config) { c.FailureDelay, c.Logger = time.Hour, slog.New(log) })
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	c.send(c.message(cmdSessionSetup, setupBody([]byte("nonsense"), 0)))
	log.wait("smb: authentication failed")
	s.connections()[0].cancel(errEvicted) // the first half of a cut
	c.wantCut()
}
