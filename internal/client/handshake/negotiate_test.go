package handshake

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// named is a provider of which only the name counts.
type named struct {
	rdma.Provider
	name string
}

func (n named) Name() string { return n.name }

var (
	clientKey, serverKey = [16]byte{1, 2, 3}, [16]byte{4, 5, 6}
	appKey               = []byte("shared by both ends of SMB")
	both                 = []rdma.Provider{named{name: "shm"}, named{name: "iwarp"}}
)

// server is an SMB session with a server that answers NEGOTIATE.
type server struct {
	appKey []byte
	noPipe error
	answer []byte
	failed error // of the transaction, or nil

	name   string // of the pipe
	asked  []byte
	maxOut int
	pipes  int // that are open
}

func (s *server) OpenPipe(_ context.Context, name string) (Pipe, error) {
	if s.noPipe != nil {
		return nil, s.noPipe
	}
	s.name = name
	s.pipes++
	return s, nil
}

func (s *server) Encryption() string { return "" }

func (s *server) ApplicationKey() ([]byte, bool) { return s.appKey, s.appKey != nil }

func (s *server) Transact(_ context.Context, in []byte, maxOut int) ([]byte, error) {
	s.asked, s.maxOut = in, maxOut
	return s.answer, s.failed
}

func (s *server) Close() error {
	s.pipes--
	return nil
}

// answer returns the answer of a server with these providers.
func answer(t testing.TB, blocks ...wire.AddressBlock) []byte {
	t.Helper()
	r := wire.NegotiateResponse{ServerName: "server", Key: serverKey, Providers: blocks}
	b, err := r.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// port is an address with a port.
func port(n byte) wire.NetAddress {
	return wire.NetAddress{HostAddress: []byte{}, Discriminator: []byte{1, n}}
}

// ports are n of them.
func ports(n int) (list []wire.NetAddress) {
	for i := range n {
		list = append(list, port(byte(i)))
	}
	return list
}

// Source: [LWIO §Network Discovery], [OP-34] to [OP-42]
func TestNegotiateKeepsOrderOfOffers(t *testing.T) {
	s := &server{appKey: appKey, answer: answer(t, wire.AddressBlock{Name: "iwarp", Instances: ports(2)}, wire.AddressBlock{Name: "shm", Instances: ports(1)})}
	a, err := Negotiate(t.Context(), s, both, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Offer{{"iwarp", ports(2)}, {"shm", ports(1)}}, a.Offers); diff != "" {
		t.Errorf("offers, in the server's order (-want +got):\n%s", diff)
	}
	asked, err := wire.DecodeNegotiateRequest(s.asked)
	if err != nil {
		t.Fatal(err)
	}
	if asked.Key != clientKey || len(asked.Providers) != 2 || asked.Providers[0].Name != "shm" || asked.Providers[1].Name != "iwarp" ||
		int(asked.ResponseLength) != s.maxOut || asked.ClientName == "" || s.name != "lwio" {
		t.Errorf("pipe %s, asked %+v for up to %d bytes", s.name, asked, s.maxOut)
	}
	if s.pipes != 0 {
		t.Errorf("%d pipes are open", s.pipes)
	}
}

// The addresses that are tried are bounded over all providers.
func TestManyInstances(t *testing.T) {
	s := &server{answer: answer(t, wire.AddressBlock{Name: "shm", Instances: ports(maxInstances - 1)}, wire.AddressBlock{Name: "iwarp", Instances: ports(3)})}
	a, err := Negotiate(t.Context(), s, both, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Offers[0].Instances) != maxInstances-1 || len(a.Offers[1].Instances) != 1 {
		t.Errorf("%d and %d addresses", len(a.Offers[0].Instances), len(a.Offers[1].Instances))
	}
}

// isFault checks that err is a fault of that kind.
func isFault(t *testing.T, err error, want Fault) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Fault != want {
		t.Errorf("%v, which is not fault %d", err, want)
	}
}

// Source: [OP-35] to [OP-40]
func TestNegotiateFails(t *testing.T) {
	good := answer(t, wire.AddressBlock{Name: "iwarp", Instances: ports(2)})
	negotiate := func(s *server) error {
		a, err := Negotiate(t.Context(), s, both, clientKey)
		if a != nil || s.pipes != 0 {
			t.Errorf("%+v, and %d pipes are open", a, s.pipes)
		}
		return err
	}
	isFault(t, negotiate(&server{noPipe: ntstatus.ObjectNameNotFound}), Off)
	isFault(t, negotiate(&server{answer: answer(t, wire.AddressBlock{Name: "ib", Instances: ports(1)})}), Violation)
	for n := range good {
		isFault(t, negotiate(&server{answer: good[:n]}), Violation)
	}
	for _, why := range []error{ntstatus.AccessDenied, io.ErrUnexpectedEOF} {
		for _, s := range []*server{{noPipe: why}, {failed: why}} {
			var e *Error
			if err := negotiate(s); !errors.Is(err, why) || errors.As(err, &e) {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
}
