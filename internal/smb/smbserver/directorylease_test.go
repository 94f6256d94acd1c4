package smbserver

import (
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// dir opens or creates a directory.
func dir(name string) create {
	return create{name: name, access: 0x81, share: 7, disposition: 3, options: 1}
}

// leasedUnder asks for a lease of version 2 with the key of the lease of the directory, or without one for 0.
func leasedUnder(o create, key, parent byte, state uint32) create {
	l := smbwire.Lease{Key: [16]byte(leaseKey(key)), State: state, V2: true}
	if parent != 0 {
		l.Flags, l.ParentKey = smbwire.LeaseParentKeySet, [16]byte(leaseKey(parent))
	}
	o.oplock, o.contexts = levelLease, contextList(namedContext{"RqLs", l.AppendTo(nil)})
	return o
}

// directoryClient is leaseClient for a client that knows leases of directories.
func directoryClient(t testing.TB, addr string, guid byte, dialect uint16) *raw {
	t.Helper()
	c := dial(t, addr)
	c.guid, c.caps = guid, byte(smbwire.CapDirectoryLeasing)
	if r := c.mustNegotiate(dialect); le.Uint32(r.body[24:])&smbwire.CapDirectoryLeasing != 0 != (dialect >= smbwire.Dialect300) {
		t.Errorf("dialect %x: capabilities %x", dialect, le.Uint32(r.body[24:]))
	}
	c.mustSetup(testUser, testPassword)
	c.mustConnect("data")
	return c
}

// directoryLease opens a directory and returns the state of the lease.
func (c *raw) directoryLease(name string, key byte, state uint32) (id [16]byte, granted uint32) {
	c.t.Helper()
	r := c.want(ntstatus.Success, cmdCreate, leasedUnder(dir(name), key, 0, state).body())
	if r.body[2] == levelLease {
		context := r.body[le.Uint32(r.body[80:])-64:]
		l, err := smbwire.DecodeLease(context[le.Uint16(context[10:]):][:le.Uint32(context[12:])])
		if err != nil || l.Key != [16]byte(leaseKey(key)) || !l.V2 {
			c.t.Fatalf("%+v, %v", l, err)
		}
		granted = l.State
	}
	return [16]byte(r.body[64:80]), granted
}

// A new file, a rename and a delete by another client break a lease of the directory, and so do those of the same
// client without the key of the lease.
//
// Source: [MS-SMB2 3.3.4.7], [MS-SMB2 3.3.5.4], [MS-SMB2 3.3.5.9.11], [MS-SMB2 2.2.13.2.10]
func TestDirectoryLeaseIsBroken(t *testing.T) {
	_, addr, disk := testServer(t, nil)
	if err := os.Mkdir(filepath.Join(disk, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	a, b := directoryClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	second := leaseClient(t, addr, 1, 0x0311) // of the client of a: nothing orders an answer and a break on one connection
	id, state := a.directoryLease("d", 1, stateRWH)
	if state != stateRH {
		t.Fatalf("granted %x", state)
	}
	epoch := uint16(1)
	// broken reads a break, acknowledges it, and asks for the lease again.
	broken := func() {
		t.Helper()
		epoch++
		a.wantBreak(1, stateRH, 0, true, epoch)
		a.want(ntstatus.Success, cmdOplockBreak, leaseAck(1, 0))
		again, state := a.directoryLease("d", 1, stateRH)
		if epoch++; state != stateRH {
			t.Fatalf("granted %x", state)
		}
		a.want(ntstatus.Success, cmdClose, closeBody(again, 0))
	}
	f := b.mustCreate(rw(`d\f`))
	broken()
	b.want(ntstatus.Success, cmdWrite, writeBody(f, 0, []byte("data")))
	b.want(ntstatus.Success, cmdClose, closeBody(f, 0))
	broken()
	b.want(ntstatus.Success, cmdClose, closeBody(b.mustCreate(leasedUnder(rw(`d\f`), 9, 1, 0)), 0)) // no change
	b.want(ntstatus.Success, cmdClose, closeBody(b.mustCreate(leasedUnder(rw(`d\g`), 9, 1, 0)), 0)) // the key of another client
	broken()

	own := second.mustCreate(leasedUnder(rw(`d\h`), 2, 1, 0))
	second.want(ntstatus.Success, cmdWrite, writeBody(own, 0, []byte("data")))
	second.want(ntstatus.Success, cmdClose, closeBody(own, 0))
	second.want(ntstatus.Success, cmdClose, closeBody(second.mustCreate(leasedUnder(rw(`d\i`), 2, 3, 0)), 0))
	broken()
	second.want(ntstatus.Success, cmdClose, closeBody(second.mustCreate(rw(`d\j`)), 0))
	broken()
	a.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	a.want(ntstatus.ObjectNameNotFound, cmdOplockBreak, leaseAck(1, 0))
}

// A directory has a lease of version 2 for a client that knows leases of directories, and no oplock.
//
// Source: [MS-SMB2 3.3.5.4], [MS-SMB2 3.3.5.9.8], [MS-SMB2 3.3.5.9.11]
func TestDirectoryLeaseNeedsTheCapability(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	for _, dialect := range allDialects {
		knows, not := directoryClient(t, addr, 1, dialect), leaseClient(t, addr, 2, dialect)
		if _, state := not.directoryLease("d", 1, stateRH); state != 0 {
			t.Errorf("%x: a client without the capability has %x", dialect, state)
		}
		if _, state := knows.directoryLease("d", 1, stateRH); state == stateRH != (dialect >= smbwire.Dialect300) {
			t.Errorf("%x: granted %x", dialect, state)
		}
		for name, o := range map[string]create{"oplock": oplocked(dir("d"), levelBatch), "version 1": leased(dir("d"), 7, stateRH)} {
			if r := knows.want(ntstatus.Success, cmdCreate, o.body()); r.body[2] != 0 {
				t.Errorf("%x: %s: level %x", dialect, name, r.body[2])
			}
		}
	}
}

// Without leases, no capability, no lease and no oplock is granted, and a second open breaks nothing. With leases of
// files, a directory has none.
//
// Source: [MS-SMB2 3.3.5.4], [MS-SMB2 3.3.5.9]
func TestLeasesAreOff(t *testing.T) {
	for leases, want := range map[Leases]struct {
		caps, directory, file uint32
		oplock                byte
	}{
		LeasesAll:     {smbwire.CapLeasing | smbwire.CapDirectoryLeasing, stateRH, stateRWH, levelBatch},
		LeasesOfFiles: {smbwire.CapLeasing, 0, stateRWH, levelBatch},
		LeasesOff:     {},
	} {
		t.Run(leases.String(), func(t *testing.T) {
			s, addr, _ := testServer(t, func(c *Config) { c.Leases = leases })
			c := dial(t, addr)
			c.guid, c.caps = 1, byte(smbwire.CapDirectoryLeasing)
			r := c.mustNegotiate(0x0311)
			if got := le.Uint32(r.body[24:]) & (smbwire.CapLeasing | smbwire.CapDirectoryLeasing); got != want.caps {
				t.Errorf("capabilities %x, want %x", got, want.caps)
			}
			c.mustSetup(testUser, testPassword)
			c.mustConnect("data")
			_, directory := c.directoryLease("d", 1, stateRH)
			file := uint32(0)
			if r := c.want(ntstatus.Success, cmdCreate, leased(rw("f"), 2, stateRWH).body()); r.body[2] == levelLease {
				file, _, _ = leaseIn(t, r.body)
			}
			oplock := c.want(ntstatus.Success, cmdCreate, oplocked(rw("g"), levelBatch).body()).body[2]
			if directory != want.directory || file != want.file || oplock != want.oplock {
				t.Errorf("directory %x, file %x, oplock %x", directory, file, oplock)
			}
			if leases != LeasesOff {
				return
			}
			other := leaseClient(t, addr, 2, 0x0311)
			other.mustCreate(rw("f"))
			other.mustCreate(rw("g"))
			if got := s.cfg.FS.Stats(); got.Leases != 0 || got.LeaseBreaks != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A client that never acknowledges the break of a lease of a directory delays no other client, except one that needs
// its open closed: that one waits until the lease is lost.
//
// Source: [MS-SMB2 3.3.6.5]
func TestSilentClientLosesTheLeaseOfADirectory(t *testing.T) {
	s, addr, _ := impatientServer(t)
	a, b := directoryClient(t, addr, 1, 0x0311), leaseClient(t, addr, 2, 0x0311)
	id, _ := a.directoryLease("d", 1, stateRH)
	b.mustCreate(rw(`d\f`))
	a.wantBreak(1, stateRH, 0, true, 2)
	b.want(ntstatus.Success, cmdClose, closeBody(b.mustCreate(dir("d")), 0))
	exclusive := dir("d")
	exclusive.share = 0
	b.want(ntstatus.SharingViolation, cmdCreate, exclusive.body())
	a.want(ntstatus.Unsuccessful, cmdOplockBreak, leaseAck(1, 0))
	a.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	if got := s.cfg.FS.Stats().LeasesRevoked; got != 1 {
		t.Errorf("%d leases revoked", got)
	}
}
