package ntstatus

import (
	"errors"
	"io/fs"
	"testing"
)

func TestBecauseWrapsStatusAndCause(t *testing.T) {
	cause := errors.New("disk on fire")
	err := AccessDenied.Because(cause)
	if Of(err) != AccessDenied || !errors.Is(err, cause) || !errors.Is(err, fs.ErrPermission) || err.Error() != cause.Error() {
		t.Errorf("%v is %v", err, Of(err))
	}
}
