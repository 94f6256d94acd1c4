package smbclient

import (
	"errors"
	"net"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// notify sends a notification about a session, which change may change before it is signed and spoil
// afterwards.
func (f *fake) notify(n smbwire.Notification, change func(h *smbwire.Header), spoil func(frame []byte)) {
	h := smbwire.Header{Command: smbwire.CommandNotification, MessageID: smbwire.OplockBreakMessageID, SessionID: fakeSession}
	if change != nil {
		change(&h)
	}
	b := f.answer(h, ntstatus.Success, &n)
	if spoil != nil {
		spoil(b)
	}
	f.write(b)
}

// A request without a response is known not to be executed if the server has announced the end of the
// session, and only then: a message without a valid signature, or with another content, announces nothing.
//
// Source: [MS-SMB2 2.2.44], [OP-56]
func TestAnnouncedEnd(t *testing.T) {
	drained := smbwire.Notification{Type: smbwire.NotifySessionClosed, Mark: smbwire.DrainedMark}
	const signature = smbwire.FrameHeaderSize + 48
	for name, x := range map[string]struct {
		cipher smbauth.Cipher
		n      smbwire.Notification
		change func(*smbwire.Header)
		spoil  func([]byte)
		unsent bool
		cause  error
	}{
		"signed":          {n: drained, unsent: true},
		"encrypted":       {n: drained, cipher: smbauth.AES128GCM, unsent: true},
		"without a mark":  {n: smbwire.Notification{}},
		"another type":    {n: smbwire.Notification{Type: 1, Mark: smbwire.DrainedMark}},
		"another session": {n: drained, change: func(h *smbwire.Header) { h.SessionID++ }},
		"an oplock":       {n: drained, change: func(h *smbwire.Header) { h.Command = smbwire.CommandOplockBreak }},
		"wrong signature": {n: drained, spoil: func(b []byte) { b[signature] ^= 1 }, cause: ErrSignature},
		"not signed":      {n: drained, spoil: func(b []byte) { b[smbwire.FrameHeaderSize+16] &^= 8 }, cause: ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			f, tree := fakeMount(t, func(f *fake) {
				f.cipher = x.cipher
				f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
					if h.Command != smbwire.CommandWrite {
						return false
					}
					f.notify(x.n, x.change, x.spoil)
					f.nc.Close()
					return true
				}
			}, func(c *Config) { c.RequireEncryption = x.cipher != smbauth.NoCipher })
			file := &File{t: tree, id: fakeFile}
			_, err := file.WriteAt(t.Context(), make([]byte, 10), 0)
			if !errors.Is(err, net.ErrClosed) || Unsent(err) != x.unsent || x.cause != nil && !errors.Is(err, x.cause) {
				t.Errorf("unsent %t: %v", Unsent(err), err)
			}
			if f.asked.Capabilities&smbwire.CapNotifications == 0 {
				t.Error("the client does not ask for notifications")
			}
		})
	}
}

// A session that requires encryption takes no announcement that is signed only.
//
// Source: [MS-SMB2 2.2.44]
func TestAnnouncedEndMustBeEncrypted(t *testing.T) {
	f, tree := fakeMount(t, func(f *fake) {
		f.cipher = smbauth.AES128GCM
		f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
			if h.Command != smbwire.CommandWrite {
				return false
			}
			f.secret = false
			f.notify(smbwire.Notification{Type: smbwire.NotifySessionClosed, Mark: smbwire.DrainedMark}, nil, nil)
			return true
		}
	}, func(c *Config) { c.RequireEncryption, c.Timeout = true, time.Minute })
	file := &File{t: tree, id: fakeFile}
	if _, err := file.WriteAt(t.Context(), make([]byte, 10), 0); !errors.Is(err, ErrEncryption) || Unsent(err) {
		t.Errorf("write: %v", err)
	}
	_ = f
}
