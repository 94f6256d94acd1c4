package server

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// survivor is a client with a persistent handle, and an RDMA connection on which it is registered.
type survivor struct {
	v    *env
	s    *Server
	dir  string
	smb  *rawSMB
	file smbwire.FileID
	n    *negotiated
	rdma *rawClient
	fid  uint16
	key  [24]byte
	addr func(previous uint64) *rawSMB // logs on again
}

// negotiate negotiates over the pipe of the SMB session.
func (s *survivor) negotiate(key [16]byte) *negotiated {
	s.v.t.Helper()
	tree := s.smb.tree
	defer func() { s.smb.tree = tree }()
	s.smb.connect("IPC$")
	pipe := s.smb.create("lwio", smbwire.CreateContext{})
	msg := negotiateRequest(s.v.t, func(r *wire.NegotiateRequest) {
		r.Key, r.Providers = key, []wire.AddressBlock{{Name: s.v.on}}
	})
	resp, err := wire.DecodeNegotiateResponse(s.smb.ioctl(pipe, smbwire.FsctlPipeTransceive, msg))
	if err != nil {
		s.v.t.Fatal(err)
	}
	return &negotiated{
		clientKey: key, serverKey: resp.Key, authKey: wire.DeriveAuthKey(s.smb.app[:], key, resp.Key),
		addr: addrOf(s.v.t, resp.Providers[0].Name, resp.Providers[0].Instances[0]),
	}
}

// attach makes an RDMA connection with the keys n, and registers the file on it.
func (s *survivor) attach(n *negotiated) (*rawClient, uint16) {
	s.v.t.Helper()
	c := s.v.connect(n)
	c.auth(n, authOptions{})
	params := wire.FIDParams{ResumeKey: s.key, SessionID: c.sessionID}
	answer := c.call(wire.NewRegister(), params.AppendTo(nil))
	if answer.Status != 0 {
		s.v.t.Fatalf("REGISTER: %v", ntstatus.Status(answer.Status))
	}
	return c, uint16(answer.Information)
}

func newSurvivor(t *testing.T, on string, cfg Config) *survivor {
	t.Helper()
	dir := t.TempDir()
	b, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return newSurvivorOf(t, on, cfg, dir, b)
}

// newSurvivorOf is newSurvivor with another backend over the directory.
func newSurvivorOf(t *testing.T, on string, cfg Config, dir string, b vfs.Backend) *survivor {
	t.Helper()
	cfg.Lookup, cfg.Providers = Users{"alice": "secret"}.Lookup, []rdma.Provider{providers[on]()}
	srv, addr, _ := newServerOf(t, context.Background(), cfg, b)
	s := &survivor{v: &env{t: t, on: on, provider: providers[on]()}, s: srv, dir: dir}
	s.addr = func(previous uint64) *rawSMB {
		c := dialSMB(t, addr, 1, previous)
		c.connect("share")
		return c
	}
	s.smb = s.addr(0)
	s.file = s.smb.persistent("f", 1)
	key, err := wire.DecodeResumeKey(s.smb.ioctl(s.file, smbwire.FsctlSrvRequestResumeKey, nil))
	if err != nil {
		t.Fatal(err)
	}
	s.key = key.Key
	s.n = s.negotiate([16]byte{1})
	s.rdma, s.fid = s.attach(s.n)
	return s
}

// lose breaks the SMB connection and waits until the server knows.
func (s *survivor) lose() {
	s.v.t.Helper()
	s.smb.nc.Close()
	eventually(s.v.t, "the session is suspended", func() bool { return s.s.Stats().Suspended == 1 })
}

// I/O over RDMA goes on while the client has lost SMB, its keys admit new connections, and a session
// that names the lost one has all of that: the file, its registration, and the fence.
//
// Source: [OP-42], [OP-46b], [OP-56], [OP-112]
func TestRDMAGoesOnWithoutSMB(t *testing.T) { onEach(t, testRDMAGoesOnWithoutSMB) }

func testRDMAGoesOnWithoutSMB(t *testing.T, on string) {
	s := newSurvivor(t, on, Config{})
	s.lose()
	s.rdma.want(ntstatus.Success, 5, writeHeader(s.fid, 0, 5), []byte("hello"))
	s.rdma.want(ntstatus.Success, 5, s.rdma.readHeader(s.fid, 0, 100, 0), nil)
	second, fid := s.attach(s.n) // with the same keys, on an orphan
	second.want(ntstatus.Success, 1, writeHeader(fid, 5, 1), []byte("!"))

	s.smb = s.addr(s.smb.session)
	s.file = s.smb.reclaim(s.file, 1)
	s.rdma.want(ntstatus.Success, 3, writeHeader(s.fid, 6, 3), []byte("abc"))
	q := smbwire.FlushRequest{FileID: s.file}
	s.smb.want(ntstatus.Success, smbwire.CommandFlush, q.AppendTo(nil))
	if got, err := os.ReadFile(filepath.Join(s.dir, "f")); string(got) != "hello!abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}

	next := s.negotiate([16]byte{1}) // the same client key: the connections before end first
	s.rdma.wantCut()
	second.wantCut()
	third, fid := s.attach(next)
	third.want(ntstatus.Success, 9, third.readHeader(fid, 0, 100, 0), nil)
	cl := smbwire.CloseRequest{FileID: s.file}
	s.smb.want(ntstatus.Success, smbwire.CommandClose, cl.AppendTo(nil))
	third.want(ntstatus.FileClosed, 0, third.readHeader(fid, 0, 100, 0), nil)
	if st := s.s.Stats(); st.Resumed != 1 || st.Reclaimed != 1 || st.Suspended != 0 || st.Orphans != 0 {
		t.Errorf("stats %+v", st)
	}
}

// The RDMA connections of a client end with its lineage: by LOGOFF, at the end of the time, by the
// removal of the user, and with the SMB connection if nothing outlives it.
//
// Source: [OP-42], [OP-56]
func TestRDMAEndsWithLineage(t *testing.T) {
	for name, x := range map[string]struct {
		cfg  Config
		ends func(s *survivor)
	}{
		"logoff": {Config{}, func(s *survivor) {
			s.smb.want(ntstatus.Success, smbwire.CommandLogoff, smbwire.Empty{}.AppendTo(nil))
		}},
		"logoff of the next session": {Config{}, func(s *survivor) {
			s.lose()
			s.smb = s.addr(s.smb.session)
			s.smb.want(ntstatus.Success, smbwire.CommandLogoff, smbwire.Empty{}.AppendTo(nil))
		}},
		"time": {Config{DurableTimeout: 50 * time.Millisecond}, func(s *survivor) { s.smb.nc.Close() }},
		"off":  {Config{DurableTimeout: -1}, func(s *survivor) { s.smb.nc.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSurvivor(t, "iwarp", x.cfg)
			x.ends(s)
			s.rdma.wantCut()
			eventually(t, "the open is closed", func() bool {
				st := s.s.Stats()
				return s.s.cfg.FS.Stats().Opens == 0 && st.Authenticated == 0 && st.Suspended == 0
			})
		})
	}
}

// An orphan that the same client takes over without the lineage of the lost session leaves the RDMA
// connections of that lineage.
//
// Source: [OP-56]
func TestOrphanOfAnotherLineageLeavesRDMA(t *testing.T) {
	s := newSurvivor(t, "iwarp", Config{})
	s.lose()
	s.smb = s.addr(0)
	s.smb.reclaim(s.file, 1)
	s.rdma.want(ntstatus.FileClosed, 0, s.rdma.readHeader(s.fid, 0, 10, 0), nil)
	params := wire.FIDParams{ResumeKey: s.key, SessionID: s.rdma.sessionID}
	s.rdma.want(ntstatus.ObjectNameNotFound, 0, wire.NewRegister(), params.AppendTo(nil))
	c, fid := s.attach(s.negotiate([16]byte{2}))
	c.want(ntstatus.Success, 5, writeHeader(fid, 0, 5), []byte("hello"))
}
