package smbclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// Source: [MS-SMB2 3.2.4.2], [MS-SMB2 3.2.5.3]
func TestNegotiationIsValidatedBelowDialect311(t *testing.T) {
	for _, d := range []uint16{smbwire.Dialect300, smbwire.Dialect302, smbwire.Dialect311} {
		f, tree := fakeMount(t, func(f *fake) { f.dialect = d }, nil)
		if err := echo(t.Context(), tree.s); err != nil {
			t.Errorf("%#x: %v", d, err)
		}
		if n := f.count(smbwire.CommandIoctl); (n == 1) != (d != smbwire.Dialect311) {
			t.Errorf("%#x: validated %d times", d, n)
		}
	}
}

// Invalid responses during negotiation and logon, and their errors.
//
// Source: [MS-SMB2 3.2.5.2], [MS-SMB2 3.2.5.3], [MS-SMB2 3.2.5.1.3]
func TestHostileLogonIsRefused(t *testing.T) {
	context := func(kind smbwire.ContextType, data []byte) func(*fake) {
		return func(f *fake) {
			f.negotiate = func(r *smbwire.NegotiateResponse) {
				for i := range r.Contexts {
					if r.Contexts[i].Type == kind {
						r.Contexts[i].Data = data
					}
				}
			}
		}
	}
	negotiate := func(do func(*smbwire.NegotiateResponse)) func(*fake) {
		return func(f *fake) { f.negotiate = do }
	}
	answer := func(b []byte) func(*fake) {
		return onCommand(smbwire.CommandNegotiate, func(f *fake, _ smbwire.Header, _ []byte) { f.write(b) })
	}
	last := func(do func(b []byte)) func(*fake) {
		return func(f *fake) {
			f.spoil = func(h *smbwire.Header, b []byte) {
				if f.signer != nil {
					do(b[smbwire.FrameHeaderSize:])
				}
			}
		}
	}
	preauth := smbwire.PreauthIntegrity{Hashes: []uint16{2}}
	for name, row := range map[string]struct {
		change func(*fake)
		want   error
	}{
		"garbage":         {answer([]byte(strings.Repeat("garbage!", 20))), ErrProtocol},
		"zeros":           {answer(make([]byte, 200)), smbwire.ErrProtocol},
		"SMB 1":           {answer(append([]byte{0, 0, 0, 64, 0xFF, 'S', 'M', 'B'}, make([]byte, 60)...)), smbwire.ErrSMB1},
		"encrypted":       {answer(append([]byte{0, 0, 0, 64, 0xFD, 'S', 'M', 'B'}, make([]byte, 60)...)), smbwire.ErrEncrypted},
		"no SMB at all":   {answer([]byte("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat(" ", 100))), ErrProtocol},
		"a dialect more":  {negotiate(func(r *smbwire.NegotiateResponse) { r.Dialect = smbwire.Dialect302 }), ErrDialect},
		"the wild card":   {negotiate(func(r *smbwire.NegotiateResponse) { r.Dialect = smbwire.DialectWildcard }), ErrDialect},
		"no contexts":     {negotiate(func(r *smbwire.NegotiateResponse) { r.Contexts = nil }), ErrProtocol},
		"another hash":    {context(smbwire.ContextPreauthIntegrity, preauth.AppendTo(nil)), ErrProtocol},
		"hash cut":        {context(smbwire.ContextPreauthIntegrity, []byte{1}), ErrProtocol},
		"another signing": {context(smbwire.ContextSigning, smbwire.AppendAlgorithms(nil, 9)), ErrProtocol},
		"two signings":    {context(smbwire.ContextSigning, smbwire.AppendAlgorithms(nil, 1, 2)), ErrProtocol},
		"no room":         {negotiate(func(r *smbwire.NegotiateResponse) { r.MaxReadSize = 0 }), ErrProtocol},
		"another hint":    {negotiate(func(r *smbwire.NegotiateResponse) { r.SecurityBuffer = []byte("\x60\x01x") }), smbauth.ErrToken},
		"tampered": {func(f *fake) {
			f.spoil = func(h *smbwire.Header, b []byte) {
				if h.Command == smbwire.CommandNegotiate {
					b[smbwire.FrameHeaderSize+smbwire.HeaderSize+40] ^= 1 // the time: only the hash shows it
				}
			}
			f.negotiate = nil
			onHash(f)
		}, ErrSignature},
		"guest": {func(f *fake) {
			f.setup = func(r *smbwire.SessionSetupResponse) { r.SessionFlags = smbwire.SessionIsGuest }
		}, ErrGuest},
		"anonymous": {func(f *fake) {
			f.setup = func(r *smbwire.SessionSetupResponse) { r.SessionFlags = smbwire.SessionIsNull }
		}, ErrGuest},
		"encryption": {func(f *fake) {
			f.setup = func(r *smbwire.SessionSetupResponse) { r.SessionFlags = smbwire.SessionEncryptData }
		}, ErrEncryption},
		"token of rubbish":  {func(f *fake) { f.setup = func(r *smbwire.SessionSetupResponse) { r.SecurityBuffer = []byte("x") } }, smbauth.ErrToken},
		"success at once":   {onCommand(smbwire.CommandSessionSetup, replyEmptySetup), smbauth.ErrToken},
		"another id":        {last(func(b []byte) { b[40] ^= 1 }), ErrProtocol},
		"wrong signature":   {last(func(b []byte) { b[48] ^= 1 }), ErrSignature},
		"no signature":      {last(func(b []byte) { b[16] &^= 8 }), ErrSignature},
		"another message":   {last(func(b []byte) { b[24] ^= 64 }), ErrProtocol},
		"another command":   {last(func(b []byte) { b[12] ^= 1 }), ErrProtocol},
		"a request":         {last(func(b []byte) { b[16] &^= 1 }), ErrProtocol},
		"structure":         {last(func(b []byte) { b[64] ^= 1 }), ErrProtocol},
		"unexpected status": {last(func(b []byte) { b[8] = 1 }), ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			f, client := newFake(t, row.change)
			s, err := f.logon(client, nil)
			if s != nil || !errors.Is(err, row.want) {
				t.Errorf("%v, want %v", err, row.want)
			}
			var e *Error
			if !errors.As(err, &e) || e.Name != "fake" {
				t.Errorf("%#v", err)
			}
		})
	}
}

// onHash makes the hash of the fake cover the bytes before they are tampered with.
func onHash(f *fake) {
	f.on = func(f *fake, h smbwire.Header, body []byte) bool {
		if h.Command != smbwire.CommandNegotiate {
			return false
		}
		spoil := f.spoil
		f.spoil = nil
		f.preauth.Update(append(h.AppendTo(nil), body...))
		r := f.chosen()
		b := f.answer(h, ntstatus.Success, &r)
		f.preauth.Update(b[smbwire.FrameHeaderSize:])
		spoil(&h, b)
		f.write(b)
		return true
	}
}

func replyEmptySetup(f *fake, h smbwire.Header, _ []byte) {
	h.SessionID = fakeSession
	f.reply(h, ntstatus.Success, &smbwire.SessionSetupResponse{})
}

// Invalid messages from a server with a session are not accepted as responses, and no call
// hangs.
//
// Source: [MS-SMB2 3.2.5.1]
func TestHostileResponsesEndTheConnection(t *testing.T) {
	raw := func(do func(f *fake, h smbwire.Header) []byte) func(*fake) {
		return onCommand(smbwire.CommandRead, func(f *fake, h smbwire.Header, _ []byte) { f.write(do(f, h)) })
	}
	spoilt := func(do func(b []byte)) func(*fake) {
		return raw(func(f *fake, h smbwire.Header) []byte {
			b := f.answer(h, ntstatus.Success, &smbwire.ReadResponse{Data: make([]byte, 100)})
			do(b)
			return b
		})
	}
	resigned := func(do func(b []byte)) func(*fake) {
		return raw(func(f *fake, h smbwire.Header) []byte {
			b := f.answer(h, ntstatus.Success, &smbwire.ReadResponse{Data: make([]byte, 100)})
			do(b[smbwire.FrameHeaderSize:])
			f.signer.Sign(b[smbwire.FrameHeaderSize:])
			return b
		})
	}
	const body = smbwire.FrameHeaderSize + smbwire.HeaderSize
	for name, row := range map[string]struct {
		change func(*fake)
		want   error
		lost   bool // the connection is given up
	}{
		"garbage":         {raw(func(*fake, smbwire.Header) []byte { return bytes.Repeat([]byte{0xA5}, 100) }), ErrProtocol, true},
		"not for SMB":     {spoilt(func(b []byte) { b[0] = 1 }), ErrProtocol, true},
		"short frame":     {spoilt(func(b []byte) { b[1], b[2], b[3] = 0, 0, 10 }), ErrProtocol, true},
		"long frame":      {spoilt(func(b []byte) { b[1], b[2], b[3] = 0xFF, 0xFF, 0xFF }), ErrProtocol, true},
		"wrong signature": {spoilt(func(b []byte) { b[body+20] ^= 1 }), ErrSignature, true},
		"no signature":    {spoilt(func(b []byte) { b[smbwire.FrameHeaderSize+16] &^= 8 }), ErrSignature, true},
		"unknown id":      {spoilt(func(b []byte) { binary.LittleEndian.PutUint64(b[smbwire.FrameHeaderSize+24:], 1<<40) }), ErrProtocol, true},
		"another command": {spoilt(func(b []byte) { b[smbwire.FrameHeaderSize+12]++ }), ErrProtocol, true},
		"next outside":    {spoilt(func(b []byte) { binary.LittleEndian.PutUint32(b[smbwire.FrameHeaderSize+20:], 1<<20) }), ErrProtocol, true},
		"encrypted":       {spoilt(func(b []byte) { b[smbwire.FrameHeaderSize] = 0xFD }), smbwire.ErrEncrypted, true},
		"more than asked": {raw(func(f *fake, h smbwire.Header) []byte {
			return f.answer(h, 0, &smbwire.ReadResponse{Data: make([]byte, 101)})
		}), ErrProtocol, false},
		"data outside":      {resigned(func(b []byte) { binary.LittleEndian.PutUint32(b[smbwire.HeaderSize+4:], math.MaxUint32) }), ErrProtocol, false},
		"data in header":    {resigned(func(b []byte) { b[smbwire.HeaderSize+2] = 8 }), ErrProtocol, false},
		"another structure": {resigned(func(b []byte) { b[smbwire.HeaderSize] = 9 }), ErrProtocol, false},
		"a strange success": {raw(func(f *fake, h smbwire.Header) []byte { return f.answer(h, 0x104, &smbwire.ReadResponse{}) }), ErrProtocol, false},
		"an error": {raw(func(f *fake, h smbwire.Header) []byte {
			return f.answer(h, ntstatus.AccessDenied, &smbwire.ErrorResponse{})
		}), os.ErrPermission, false},
		"twice": {raw(func(f *fake, h smbwire.Header) []byte {
			b := f.answer(h, ntstatus.AccessDenied, &smbwire.ErrorResponse{})
			return append(b, b...)
		}), ntstatus.AccessDenied, true},
		"half a frame": {onCommand(smbwire.CommandRead, func(f *fake, h smbwire.Header, _ []byte) {
			b := f.answer(h, 0, &smbwire.ReadResponse{Data: make([]byte, 100)})
			f.write(b[:len(b)-1])
			f.nc.Close()
		}), net.ErrClosed, true},
		"half a header": {onCommand(smbwire.CommandRead, func(f *fake, h smbwire.Header, _ []byte) {
			f.write(f.answer(h, 0, &smbwire.ReadResponse{})[:20])
			f.nc.Close()
		}), net.ErrClosed, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, tree := fakeMount(t, row.change, nil)
			f := open(t, tree, readWrite("f"))
			_, err := f.ReadAt(t.Context(), make([]byte, 100), 0)
			if !errors.Is(err, row.want) {
				t.Errorf("%v, want %v", err, row.want)
			}
			if row.lost {
				awaitLoss(t, tree.s)
			}
			if err := echo(t.Context(), tree.s); (err != nil) != row.lost || row.lost && !errors.Is(err, net.ErrClosed) {
				t.Errorf("then: %v", err)
			}
		})
	}
}

// awaitLoss waits for the end of the session, up to a minute.
func awaitLoss(t *testing.T, s *Session) {
	t.Helper()
	select {
	case <-s.conn.end.down:
	case <-time.After(time.Minute):
		t.Fatal("the connection is still there")
	}
}

// Source: [MS-SMB2 3.2.5.11], [MS-SMB2 3.2.5.12], [MS-SMB2 3.2.5.14], [MS-SMB2 3.2.5.15], [MS-SMB2 3.2.5.17]
func TestHostileLengthsAreProtocolErrors(t *testing.T) {
	dir := smbwire.DirEntry{Name: []byte{'.', 0, '.', 0, '/', 0, 'x', 0}}
	list, last := smbwire.AppendDirEntry(nil, 0, -1, smbwire.ClassIDBothDirectory, &dir)
	broken := bytes.Clone(list)
	binary.LittleEndian.PutUint32(broken[60:], 1<<30)
	replies := map[smbwire.Command]appender{
		smbwire.CommandWrite:          &smbwire.WriteResponse{Count: 11},
		smbwire.CommandQueryInfo:      &smbwire.BufferResponse{Data: make([]byte, 50)},
		smbwire.CommandIoctl:          &smbwire.IoctlResponse{Output: make([]byte, 30)},
		smbwire.CommandQueryDirectory: &smbwire.BufferResponse{Data: broken},
	}
	_, tree := fakeMount(t, func(f *fake) {
		f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
			r, ok := replies[h.Command]
			if ok {
				f.reply(h, ntstatus.Success, r)
			}
			return ok
		}
	}, nil)
	f := open(t, tree, readWrite("f"))
	_, write := f.WriteAt(t.Context(), make([]byte, 10), 0)
	_, query := f.queryInfo(t.Context(), 4, 49)
	_, stat := f.Stat(t.Context())
	_, ioctl := f.ioctl(t.Context(), 1, nil, 29)
	var found error
	for _, err := range f.ReadDir(t.Context(), "") {
		found = err
	}
	for name, err := range map[string]error{"write": write, "query": query, "stat": stat, "ioctl": ioctl, "list": found} {
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	replies[smbwire.CommandWrite] = &smbwire.WriteResponse{Count: 9}
	if n, err := f.WriteAt(t.Context(), make([]byte, 10), 0); n != 9 || err == nil {
		t.Error(n, err)
	}
	// A name that is a path is an error; the entries behind it are listed.
	dir.Name = []byte{'o', 0, 'k', 0}
	list, _ = smbwire.AppendDirEntry(list, 0, last, smbwire.ClassIDBothDirectory, &dir)
	replies[smbwire.CommandQueryDirectory] = &smbwire.BufferResponse{Data: list}
	var seen []string
	for e, err := range f.ReadDir(t.Context(), "") {
		if err == nil {
			seen = append(seen, e.Name)
			break
		}
		if !errors.Is(err, smbwire.ErrName) {
			t.Error(err)
		}
		seen = append(seen, "?")
	}
	if len(seen) != 2 || seen[0] != "?" || seen[1] != "ok" {
		t.Errorf("%q", seen)
	}
}

// Source: [MS-SMB2 3.2.5.5], [MS-SMB2 3.2.5.14.12]
func TestTamperedNegotiationIsADowngrade(t *testing.T) {
	validation := func(v func(*smbwire.ValidateNegotiateResponse)) func(*fake) {
		return onCommand(smbwire.CommandIoctl, func(f *fake, h smbwire.Header, _ []byte) {
			r := f.chosen()
			info := smbwire.ValidateNegotiateResponse{Capabilities: r.Capabilities, GUID: r.ServerGUID, SecurityMode: r.SecurityMode, Dialect: r.Dialect}
			v(&info)
			f.reply(h, ntstatus.Success, &smbwire.IoctlResponse{Output: info.AppendTo(nil)})
		})
	}
	for name, change := range map[string]func(*fake){
		"dialect":       validation(func(v *smbwire.ValidateNegotiateResponse) { v.Dialect = smbwire.Dialect302 }),
		"capabilities":  validation(func(v *smbwire.ValidateNegotiateResponse) { v.Capabilities |= 0x40 }),
		"security mode": validation(func(v *smbwire.ValidateNegotiateResponse) { v.SecurityMode = smbwire.SigningRequired }),
		"server":        validation(func(v *smbwire.ValidateNegotiateResponse) { v.GUID[15] = 1 }),
		"refusal": onCommand(smbwire.CommandIoctl, func(f *fake, h smbwire.Header, _ []byte) {
			f.reply(h, ntstatus.NotSupported, &smbwire.ErrorResponse{})
		}),
		"unsigned": onCommand(smbwire.CommandIoctl, func(f *fake, h smbwire.Header, body []byte) {
			f.signer = nil
			f.validate(h, body)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			f, client := newFake(t, func(f *fake) { f.dialect = smbwire.Dialect300; change(f) })
			s, err := f.logon(client, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.TreeConnect(t.Context(), "data")
			want := ErrDowngrade
			if name == "unsigned" {
				want = ErrSignature
			}
			if !errors.Is(err, want) || !errors.Is(s.Err(), net.ErrClosed) {
				t.Errorf("%v; the session: %v", err, s.Err())
			}
		})
	}
}

// Source: [MS-SMB2 3.2.5.5]
func TestShareThatRequiresEncryption(t *testing.T) {
	f, client := newFake(t, func(f *fake) { f.share.ShareFlags = smbwire.ShareFlagEncryptData })
	s, err := f.logon(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.TreeConnect(t.Context(), "data"); !errors.Is(err, ErrEncryption) {
		t.Error(err)
	}
	if f.count(smbwire.CommandTreeDisconnect) != 1 || echo(t.Context(), s) != nil {
		t.Error("the share is still connected, or nothing is")
	}
}
