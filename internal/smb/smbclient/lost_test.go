package smbclient

import (
	"errors"
	"io"
	"net"
	"testing"

	"lwio/internal/smb/smbwire"
)

// An orderly end of the connection is not the end of a file.
func TestLostConnectionIsNotEOF(t *testing.T) {
	f, tree := fakeMount(t, func(f *fake) {
		f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
			if h.Command == smbwire.CommandRead {
				f.nc.Close()
			}
			return h.Command == smbwire.CommandRead
		}
	}, nil)
	file := &File{t: tree, id: fakeFile}
	if _, err := file.ReadAt(t.Context(), make([]byte, 10), 0); !errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
	if f.count(smbwire.CommandRead) != 1 {
		t.Error("nothing was read")
	}
	if err := tree.s.Err(); !errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		t.Errorf("session: %v", err)
	}
}
