package wire

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"lwio/internal/ntstatus"
)

// Source: [OP-27], [OP-50c], [OP-63]
func TestErrorsAnswerOrEndTheConnection(t *testing.T) {
	for _, c := range []struct {
		err  error
		text string
		outcome
	}{
		{cut("READ", "%d bytes", 3), "READ: 3 bytes", ended},
		{refuse("READ", ntstatus.InvalidParameter, "no"), "READ: no (" + ntstatus.InvalidParameter.Error() + ")", invalid},
		{deny("AUTH", "no"), "AUTH: no (" + ntstatus.AccessDenied.Error() + ")", denied},
	} {
		want(t, c.err, c.outcome)
		if c.err.Error() != c.text {
			t.Errorf("%q instead of %q", c.err, c.text)
		}
	}
	if err := deny("AUTH", "no"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v is not fs.ErrPermission", err)
	}
	if err := cut("READ", "no"); errors.Unwrap(err) != nil {
		t.Errorf("%v wraps %v", err, errors.Unwrap(err))
	}
	if Terminates(nil) || !Terminates(io.EOF) {
		t.Error("nil ends connections, or io.EOF does not")
	}
}
