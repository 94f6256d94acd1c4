package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// row is a field of a golden message: its name and its bytes in hexadecimal.
type row struct{ field, hex string }

// golden joins the bytes of the rows.
func golden(tb testing.TB, rows ...row) []byte {
	tb.Helper()
	var all []byte
	for _, r := range rows {
		b, err := hex.DecodeString(strings.ReplaceAll(r.hex, " ", ""))
		if err != nil {
			tb.Fatalf("%s: %v", r.field, err)
		}
		all = append(all, b...)
	}
	return all
}

// failer is a test, or a property of rapid's.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// same compares encoded bytes with golden ones and names the first difference.
func same(tb failer, got, want []byte) {
	tb.Helper()
	if bytes.Equal(got, want) {
		return
	}
	n := min(len(got), len(want))
	at := n
	for i := range n {
		if got[i] != want[i] {
			at = i
			break
		}
	}
	tb.Fatalf("%d bytes instead of %d, first difference at %d:\n got %x\nwant %x", len(got), len(want), at, got, want)
}

// refusesPrefixes fails the test unless decode refuses every proper prefix of message with an
// *Error, and does not read beyond its end.
func refusesPrefixes(t *testing.T, message []byte, decode func([]byte) error) {
	t.Helper()
	for n := range message {
		err := decode(bytes.Clone(message[:n]))
		var e *Error
		if !errors.As(err, &e) || !e.Terminate {
			t.Errorf("the first %d of %d bytes: %v", n, len(message), err)
		}
	}
	if err := decode(message); err != nil {
		t.Errorf("all %d bytes: %v", len(message), err)
	}
}

// refusesMore fails the test unless decode refuses message with one byte more.
func refusesMore(t *testing.T, message []byte, decode func([]byte) error) {
	t.Helper()
	if err := decode(append(bytes.Clone(message), 0)); !Terminates(err) {
		t.Errorf("a byte too many: %v", err)
	}
}

// outcome is the expected consequence of a message: none, an answer, or the end of the
// connection.
type outcome struct {
	status ntstatus.Status
	cut    bool
}

var (
	fine    = outcome{}
	invalid = outcome{status: ntstatus.InvalidParameter}
	ended   = outcome{cut: true}
	denied  = outcome{status: ntstatus.AccessDenied, cut: true}
)

// want fails the test unless err is that outcome.
func want(t *testing.T, err error, o outcome) {
	t.Helper()
	if err == nil {
		if o != fine {
			t.Errorf("taken; want status %v, end %v", o.status, o.cut)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%T %v is no *Error", err, err)
	}
	if got := (outcome{e.Status, e.Terminate}); got != o {
		t.Errorf("%v: status %v, end %v; want status %v, end %v", err, got.status, got.cut, o.status, o.cut)
	}
	if e.Message == "" || e.Reason == "" {
		t.Errorf("%+v has no message or reason", e)
	}
	if Terminates(err) != o.cut {
		t.Errorf("Terminates(%v) = %v", err, !o.cut)
	}
	if o.status != ntstatus.Success && !errors.Is(err, o.status) {
		t.Errorf("%v is not %v", err, o.status)
	}
}

// depicted are the limits of the protocol text's figures.
var depicted = Limits{MaxRecvBufferSize: 8192, MaxRdmaWindowSize: 512 << 10}

// checkCase is a header, the size of its message, and the expected outcome.
type checkCase struct {
	name     string
	change   func(*Header)
	received int
	outcome  outcome
}

// runChecks changes a good header in one way at a time.
func runChecks(t *testing.T, good Header, cases []checkCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := good
			if c.change != nil {
				c.change(&h)
			}
			want(t, h.Check(c.received, depicted), c.outcome)
		})
	}
}

// completion is a way to complete a message of I/O: by a status block if polling, else by a
// status response.
type completion struct {
	polling          bool
	cookie, iosVa    uint64
	immediate, iosMh uint32
}

// by sets the completion of h.
func by(h Header, c completion) Header {
	if c.polling {
		h.CompleteByWrite(c.iosVa, c.iosMh)
	} else {
		h.CompleteBySend(c.cookie, c.immediate)
	}
	return h
}
