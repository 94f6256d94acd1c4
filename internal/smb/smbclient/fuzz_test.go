package smbclient

import (
	"errors"
	"net"
	"strings"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// bare returns a session without a logon. Nothing is signed, so the bytes of a server reach
// the decoders.
func bare(t testing.TB, nc net.Conn) *Session {
	cfg := Config{}.withDefaults()
	s := &Session{conn: newConn(nc, &cfg), host: "bare", neg: &negotiation{maxRead: 1 << 20, maxWrite: 1 << 20, maxTransact: 1 << 20}}
	s.conn.agreed.dialect, s.conn.agreed.largeMTU, s.conn.credits.held = smbwire.Dialect311, true, 100
	s.validated.Store(true)
	t.Cleanup(func() { s.Close() })
	return s
}

// FuzzAnswers sends arbitrary responses to each kind of request.
//
// Source: [MS-SMB2 3.2.5]
func FuzzAnswers(f *testing.F) {
	seed := func(op byte, parts ...[]byte) {
		var b []byte
		for _, p := range parts {
			b = append(b, p...)
		}
		f.Add(op, b)
	}
	message := func(id uint64, c smbwire.Command, st ntstatus.Status, flags smbwire.Flags, body appender) []byte {
		h := smbwire.Header{Command: c, Status: st, Flags: flags | smbwire.FlagResponse, MessageID: id, Credits: 1}
		b := body.AppendTo(h.AppendTo(make([]byte, smbwire.FrameHeaderSize)))
		smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
		return b
	}
	created := smbwire.CreateResponse{Contexts: []smbwire.CreateContext{{Name: smbwire.CreateContextQueryOnDiskID, Data: (&smbwire.OnDiskID{FileID: 5}).AppendTo(nil)}}}
	key := smbwire.ResumeKey{Context: []byte{'x', 0}}
	entry := smbwire.DirEntry{Name: []byte{'x', 0}}
	list, _ := smbwire.AppendDirEntry(nil, 0, -1, smbwire.ClassIDBothDirectory, &entry)
	seed(0, message(0, smbwire.CommandTreeConnect, 0, 0, &smbwire.TreeConnectResponse{ShareType: 1}))
	seed(1, message(0, smbwire.CommandCreate, 0, 0, &created),
		message(1, smbwire.CommandIoctl, 0, 0, &smbwire.IoctlResponse{Output: key.AppendTo(nil)}))
	seed(2, message(0, smbwire.CommandRead, ntstatus.Pending, smbwire.FlagAsync, &smbwire.ErrorResponse{}),
		message(0, smbwire.CommandRead, 0, 0, &smbwire.ReadResponse{Data: make([]byte, 100)}))
	seed(3, message(0, smbwire.CommandWrite, 0, 0, &smbwire.WriteResponse{Count: 100}))
	seed(4, message(0, smbwire.CommandQueryDirectory, 0, 0, &smbwire.BufferResponse{Data: list}),
		message(1, smbwire.CommandQueryDirectory, ntstatus.NoMoreFiles, 0, &smbwire.ErrorResponse{}))
	seed(5, message(0, smbwire.CommandQueryInfo, 0, 0, &smbwire.BufferResponse{Data: (&smbwire.AllInfo{}).AppendTo(nil)}))
	seed(6, message(0, smbwire.CommandCreate, 0, 0, &created), message(1, smbwire.CommandClose, ntstatus.AccessDenied, 0, &smbwire.ErrorResponse{}))
	volume := smbwire.FSFullSizeInfo{TotalUnits: 2, SectorsPerUnit: 8, BytesPerSector: 512}
	seed(7, message(0, smbwire.CommandCreate, 0, 0, &created), message(1, smbwire.CommandQueryInfo, 0, 0, &smbwire.BufferResponse{Data: volume.AppendTo(nil)}),
		message(2, smbwire.CommandClose, 0, 0, &smbwire.CloseResponse{}))
	f.Fuzz(func(t *testing.T, op byte, answers []byte) {
		client, server := net.Pipe()
		s := bare(t, client)
		done := make(chan struct{})
		go func() { // takes requests, and sends all responses after the first
			defer close(done)
			if _, err := readFrame(server); err == nil {
				go func() { _, _ = server.Write(answers); server.Close() }()
			}
			for {
				if _, err := readFrame(server); err != nil {
					return
				}
			}
		}()
		doOne(t, s, op)
		server.Close()
		<-done
	})
}

// doOne makes one kind of call, which has to return.
func doOne(t *testing.T, s *Session, op byte) {
	ctx := t.Context()
	tree := &Tree{s: s, id: 1}
	file := &File{t: tree}
	switch op % 8 {
	case 0:
		_, _ = s.TreeConnect(ctx, "t")
	case 1:
		if f, err := tree.Create(ctx, CreateRequest{Name: "f", ResumeKey: true}); err == nil {
			_, _ = f.ResumeKey(ctx)
		}
	case 2:
		p := make([]byte, 100)
		if n, err := file.ReadAt(ctx, p, 0); n > len(p) || n < len(p) && err == nil {
			t.Error(n, err)
		}
	case 3:
		p := make([]byte, 100)
		if n, err := file.WriteAt(ctx, p, 0); n > len(p) || n < len(p) && err == nil {
			t.Error(n, err)
		}
	case 4:
		for e, err := range file.ReadDir(ctx, "") {
			if err == nil && strings.ContainsAny(e.Name, "/\\\x00") {
				t.Errorf("a name: %q", e.Name)
			}
		}
	case 5:
		_, _ = file.Stat(ctx)
	case 6:
		_, _ = tree.Stat(ctx, "f")
	case 7:
		if sp, err := tree.Space(ctx); err == nil && (sp.BlockSize < 1 || min(sp.Total, sp.Free, sp.Available) < 0) {
			t.Errorf("%+v", sp)
		}
	}
}

// FuzzNegotiate sends arbitrary responses to the first message.
//
// Source: [MS-SMB2 3.2.5.2], [MS-SMB2 3.2.5.3]
func FuzzNegotiate(f *testing.F) {
	fk := &fake{dialect: smbwire.Dialect311, credits: func(*smbwire.Header) uint16 { return 10 }}
	for _, d := range []uint16{smbwire.Dialect300, smbwire.Dialect311} {
		fk.dialect = d
		r := fk.chosen()
		f.Add(fk.answer(smbwire.Header{}, 0, &r))
		setup := smbwire.SessionSetupResponse{SecurityBuffer: new(smbauth.AcceptorConfig).ServerHint()}
		f.Add(append(fk.answer(smbwire.Header{}, 0, &r), fk.answer(smbwire.Header{Command: smbwire.CommandSessionSetup, MessageID: 1}, 0, &setup)...))
	}
	f.Fuzz(func(t *testing.T, answers []byte) {
		client, server := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := readFrame(server); err == nil {
				go func() { _, _ = server.Write(answers); server.Close() }()
			}
			for {
				if _, err := readFrame(server); err != nil {
					return
				}
			}
		}()
		s, err := New(t.Context(), client, "fuzz", Config{User: "u", Password: "p"})
		var e *Error
		if s != nil || !errors.As(err, &e) {
			t.Fatalf("%v, %v: the server does not know the password", s, err)
		}
		server.Close()
		<-done
	})
}
