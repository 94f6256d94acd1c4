package handshake

import (
	"bytes"
	"errors"
	"testing"

	"lwio/internal/wire"
	"lwio/rdma"
)

var sessionID = [8]byte([]byte("session "))

// start is the nonce of the connection on.
var (
	start = wire.ConnectionStart{Nonce: [16]byte{3, 3}}
	on    = Connection{Fabric: "shm", PrivateData: start.AppendTo(nil)}
)

// begun is an AUTH of a client that negotiated, with an application key or without.
func begun(t testing.TB, key []byte, allowMD5 bool) (*Association, *Auth) {
	t.Helper()
	a, err := Negotiate(t.Context(), &server{appKey: key, answer: answer(t, wire.AddressBlock{Name: "shm", Instances: ports(1)})}, both, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	p := &wire.AuthParams{
		RevID: wire.RevID, Endian: 8, PageSize: 4096, BaseSequence: 7, MaxRdmaWindowSize: 1 << 20, MaxSendBufferSize: 8192,
		MaxRecvBufferSize: wire.StatusResponseSize, HeaderSize: wire.HeaderSize, Credits: 8,
	}
	m, err := a.Auth(42, p, rdma.RemoteAddr{Addr: 4096, Token: 9}, on, allowMD5)
	if err != nil {
		t.Fatal(err)
	}
	return a, m
}

// A server accepts the AUTH message of the client.
//
// Source: [LWIO §Connection Authentication], [OP-45], [OP-46b]
func TestAuthMessage(t *testing.T) {
	_, m := begun(t, appKey, false)
	p, err := wire.DecodeAuthParams(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	key := wire.DeriveAuthKey(appKey, clientKey, serverKey)
	if err := errors.Join(wire.VerifyMD5(m.Body), wire.VerifyKeyed(m.Body, key, wire.RoleClient, m.Header.AppendTo(nil), nil), p.CheckClient()); err != nil {
		t.Error(err)
	}
	if *p.Key != serverKey || m.Header.Cookie != 42 || m.Header.DataVa != 4096 || m.Header.DataMh != 9 {
		t.Errorf("%+v, %+v", m.Header, p)
	}
}

// Two messages of one association are not alike, so that none is taken for another.
//
// Source: [OP-46b]
func TestAuthNoncesDiffer(t *testing.T) {
	_, one := begun(t, appKey, false)
	_, other := begun(t, appKey, false)
	if one.sent.Keyed.Nonce == other.sent.Keyed.Nonce || bytes.Equal(one.Body, other.Body) {
		t.Error("the same nonce twice")
	}
}

// Source: [OP-46b]
func TestAuthWithoutKeyIsRefused(t *testing.T) {
	a, m := begun(t, nil, true)
	if m.sent.Keyed != nil {
		t.Error("a keyed signature without a key")
	}
	if m, err := a.Auth(1, new(wire.AuthParams), rdma.RemoteAddr{}, on, false); m != nil || err == nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// reply is how a server answers.
type reply struct {
	params wire.AuthParams
	key    []byte // of the keyed signature
	header []byte // that the signature covers
	spoil  bool   // changes the signed bytes
}

// replyTo returns the reply of the right server.
func replyTo(m *Auth) *reply {
	r := &reply{key: wire.DeriveAuthKey(appKey, clientKey, serverKey), header: m.Header.AppendTo(nil)}
	r.params = wire.AuthParams{
		RevID: wire.RevID, Endian: 8, PageSize: 4096, BaseSequence: m.sent.BaseSequence + 1, MaxRdmaWindowSize: 1 << 20,
		MaxSendBufferSize: wire.StatusResponseSize, MaxRecvBufferSize: 8192, HeaderSize: wire.HeaderSize, Credits: 4,
		Key: &m.assoc.clientKey, SessionID: &sessionID, Signature: new([16]byte),
	}
	if m.sent.Keyed != nil {
		r.params.Binding, r.params.Keyed = m.sent.Binding, &wire.KeyedOption{Nonce: [16]byte{5}}
	}
	return r
}

// bytes signs it for the nonce of m.
func (r *reply) bytes(t testing.TB, m *Auth) []byte {
	t.Helper()
	b := r.params.AppendTo(nil)
	if r.params.Keyed != nil {
		if err := wire.SignKeyed(b, r.key, wire.RoleServer, r.header, m.sent.Keyed.Nonce[:]); err != nil {
			t.Fatal(err)
		}
	}
	if r.params.Signature == nil {
		return b
	}
	if err := wire.SignMD5(b); err != nil {
		t.Fatal(err)
	}
	if r.spoil {
		b[bytes.Index(b, sessionID[:])] ^= 1
	}
	return b
}

// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-46b]
func TestAnswerOfRightServerIsAccepted(t *testing.T) {
	for _, key := range [][]byte{appKey, nil} {
		_, m := begun(t, key, key == nil)
		r := replyTo(m)
		p, err := m.Check(r.bytes(t, m))
		if err != nil || p.Credits != 4 || *p.SessionID != sessionID || (p.Keyed != nil) != (key != nil) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	// A server that follows the text alone, if that is allowed.
	_, m := begun(t, appKey, true)
	r := replyTo(m)
	r.params.Keyed, r.params.Binding = nil, nil
	if p, err := m.Check(r.bytes(t, m)); err != nil || p.Keyed != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// The AUTH names the connection that it is sent on. A server without a nonce of the connection gets an
// AUTH only if that is allowed.
//
// Source: [OP-46c], [OP-102]
func TestAuthIsBoundToConnection(t *testing.T) {
	a, m := begun(t, appKey, false)
	p, err := wire.DecodeAuthParams(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	if binding := start.Binding("shm"); p.Binding == nil || *p.Binding != binding {
		t.Errorf("bound to %x, want %x", p.Binding, binding)
	}
	for _, private := range [][]byte{nil, []byte("LWIO"), on.PrivateData[:23], make([]byte, 24)} {
		from := Connection{Fabric: "shm", PrivateData: private}
		if m, err := a.Auth(1, new(wire.AuthParams), rdma.RemoteAddr{}, from, false); m != nil || !errors.Is(err, errNotBound) {
			t.Errorf("private data %x: %+v, %v", private, m, err)
		}
		m, err := a.Auth(1, new(wire.AuthParams), rdma.RemoteAddr{}, from, true)
		if err != nil || m.sent.Binding != nil || m.sent.Keyed == nil {
			t.Errorf("private data %x, allowed: %+v, %v", private, m, err)
		}
	}
}

// Source: [LWIO claim 12], [OP-46] to [OP-50j], [OP-112]
func TestAnswerOfWrongServerIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(r *reply)
		want   Fault
	}{
		"another client's key": {func(r *reply) { r.params.Key = &serverKey }, Spoofed},
		"no key":               {func(r *reply) { r.params.Key = nil }, Spoofed},
		"other than signed":    {func(r *reply) { r.spoil = true }, Spoofed},
		"not signed":           {func(r *reply) { r.params.Signature = nil }, Spoofed},
		"another session":      {func(r *reply) { r.key = []byte("another") }, Spoofed},
		"another message":      {func(r *reply) { r.header[8] ^= 1 }, Spoofed},
		"another connection":   {func(r *reply) { r.params.Binding = &[wire.BindingSize]byte{1} }, Spoofed},
		"another number":       {func(r *reply) { r.params.BaseSequence++ }, Violation},
		"another's outcomes":   {func(r *reply) { r.params.PreviousSessionID = &[8]byte{2} }, Violation},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := begun(t, appKey, false)
			r := replyTo(m)
			tt.change(r)
			_, err := m.Check(r.bytes(t, m))
			isFault(t, err, tt.want)
		})
	}
	_, m := begun(t, nil, true)
	r := replyTo(m)
	r.spoil = true
	_, err := m.Check(r.bytes(t, m))
	isFault(t, err, Spoofed)
	_, m = begun(t, appKey, false)
	r = replyTo(m)
	r.params.Keyed = nil
	var e *Error
	if _, err := m.Check(r.bytes(t, m)); err == nil || errors.As(err, &e) {
		t.Errorf("MD5 alone: %v", err)
	}
	_, m = begun(t, appKey, false)
	r = replyTo(m)
	r.params.Binding = nil
	if _, err := m.Check(r.bytes(t, m)); !errors.Is(err, errNotBound) {
		t.Errorf("without a binding: %v", err)
	}
}

// Source: [OP-46b]
func TestCutAnswerIsRefused(t *testing.T) {
	_, m := begun(t, appKey, false)
	whole := replyTo(m).bytes(t, m)
	for n := range whole {
		if p, err := m.Check(whole[:n]); err == nil {
			t.Errorf("the first %d bytes: %+v", n, p)
		}
	}
}

// Only the bytes that the server signed are accepted as its answer.
func FuzzCheck(f *testing.F) {
	_, m := begun(f, appKey, false)
	whole := replyTo(m).bytes(f, m)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := m.Check(b); err == nil && !bytes.Equal(b, whole) {
			t.Errorf("%+v", p)
		}
	})
}
