package smbserver

import (
	"testing"

	"lwio/internal/ntstatus"
)

// A failure is repeated to each session until a second FLUSH of it.
func TestSyncErrorIsRepeatedToTheNextSession(t *testing.T) {
	const failure = ntstatus.UnexpectedIOError
	first, next, last := new(Session), new(Session), new(Session)
	var e syncError
	if st := e.due(first); st != ntstatus.Success {
		t.Errorf("without a failure: %v", st)
	}
	e.set(failure, first)
	for i, x := range []struct {
		s    *Session
		want ntstatus.Status
	}{{next, failure}, {last, failure}, {last, ntstatus.Success}, {first, ntstatus.Success}} {
		if st := e.due(x.s); st != x.want {
			t.Errorf("FLUSH %d: %v, want %v", i+1, st, x.want)
		}
	}
	e.set(failure, first)
	if st := e.due(first); st != ntstatus.Success {
		t.Errorf("the session that has the response: %v", st)
	}
	e.set(failure, nil)
	if st := e.due(first); st != failure {
		t.Errorf("a failure before a restart: %v", st)
	}
}
