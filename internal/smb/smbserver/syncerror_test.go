package smbserver

import (
	"runtime"
	"testing"
	"weak"

	"lwio/internal/ntstatus"
)

// A failure is repeated over each carrier until a second FLUSH over it. A session and a connection of another protocol
// differ, also if they have the same number.
func TestSyncErrorIsRepeatedOverTheNextCarrier(t *testing.T) {
	const failure = ntstatus.UnexpectedIOError
	first, next, last := carrier{id: 1}, carrier{id: 2}, carrier{other: true, id: 2}
	var e syncError
	if st := e.due(first); st != ntstatus.Success {
		t.Errorf("without a failure: %v", st)
	}
	e.set(failure, first)
	for i, x := range []struct {
		s    carrier
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
	e.set(failure, carrier{})
	if st := e.due(first); st != failure {
		t.Errorf("a failure before a restart: %v", st)
	}
}

// The failure of an open, which outlives its session, does not keep the session in memory.
func TestSyncErrorKeepsNoSession(t *testing.T) {
	var e syncError
	show := func() weak.Pointer[Session] {
		s := &Session{id: 1}
		e.set(ntstatus.UnexpectedIOError, carrier{id: s.id})
		if st := e.due(carrier{id: 2}); st != ntstatus.UnexpectedIOError {
			t.Fatal(st)
		}
		e.set(ntstatus.UnexpectedIOError, carrier{})
		e.due(carrier{id: s.id})
		return weak.Make(s)
	}
	s := show()
	for range 10 {
		runtime.GC()
	}
	if s.Value() != nil {
		t.Error("the session is still reachable")
	}
	runtime.KeepAlive(&e)
}
