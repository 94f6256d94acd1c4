package server

import "testing"

// An INTERRUPT is answered at once if the client has missed a completion, else by the next one,
// and a second one is refused as busy.
//
// Source: [LWIO §Wakeup] [OP-93a] [OP-93c] [OP-93e]
func TestInterruptComparesOutstandingRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		begun, completed int
		unseen           int // by the count of the client
		want             interruptAnswer
	}{
		"no completion missed":              {2, 0, 2, interruptLater},
		"one completion missed":             {2, 1, 2, interruptNow},
		"saturated, nothing completed":      {2, 0, saturated, interruptLater},
		"saturated, one completed":          {2, 1, saturated, interruptNow},
		"nothing outstanding, none claimed": {0, 0, 0, interruptLater},
	} {
		var w wakeups
		for range tt.begun {
			w.begin()
		}
		if tt.completed > 0 && w.complete(tt.completed) != nil {
			t.Errorf("%s: an INTERRUPT that was not sent is answered", name)
		}
		o := new(op)
		if got := w.arm(o, tt.unseen); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
		if tt.want == interruptNow {
			if w.armed != nil || w.completed {
				t.Errorf("%s: the answered INTERRUPT waits", name)
			}
			continue
		}
		if got := w.arm(new(op), tt.unseen); got != interruptBusy {
			t.Errorf("%s: a second one: %d", name, got)
		}
		w.begin()
		if w.complete(1) != o || w.armed != nil || w.completed {
			t.Errorf("%s: the completion does not answer the INTERRUPT", name)
		}
	}
}
