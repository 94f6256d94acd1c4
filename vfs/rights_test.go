package vfs_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// rightsTable has the rights of each user on the share "data", which a test may change at any time.
type rightsTable struct {
	mu    sync.Mutex
	users map[string]vfs.Rights
}

func (r *rightsTable) of(user string) vfs.Rights {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.users[user]
}

func (r *rightsTable) set(user string, rights vfs.Rights) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users[user] = rights
}

// on makes the table the rights of both shares of a site.
func (r *rightsTable) on(c *vfs.Config) {
	for i := range c.Shares {
		c.Shares[i].Rights = r.of
	}
}

func newRights() *rightsTable {
	return &rightsTable{users: map[string]vfs.Rights{"reader": vfs.ReadOnly, "writer": vfs.ReadWrite}}
}

func byUser(name string) func(*vfs.OpenRequest) {
	return func(r *vfs.OpenRequest) { r.User = name }
}

// The rights of a user bound each tree connect. A read-only share bounds the rights.
//
// Source: [MS-SMB2 3.3.5.7]
func TestConnectReturnsTheRightsOfTheUser(t *testing.T) {
	s := newSite(t, newRights().on)
	for _, c := range []struct {
		share, user string
		want        vfs.Rights
		status      ntstatus.Status
	}{
		{"data", "writer", vfs.ReadWrite, ntstatus.Success},
		{"DATA", "reader", vfs.ReadOnly, ntstatus.Success},
		{"data", "other", vfs.NoAccess, ntstatus.AccessDenied},
		{"data", "", vfs.NoAccess, ntstatus.AccessDenied},
		{"frozen", "writer", vfs.ReadOnly, ntstatus.Success},
		{"frozen", "other", vfs.NoAccess, ntstatus.AccessDenied},
		{"nothing", "writer", vfs.NoAccess, ntstatus.BadNetworkName},
	} {
		sh, rights, err := s.Connect(c.share, c.user)
		wantStatus(t, c.user+" on "+c.share, err, c.status)
		if rights != c.want || (sh == nil) != (err != nil) {
			t.Errorf("%s on %s: %v, share %v", c.user, c.share, rights, sh)
		}
	}
}

// An open has no more access than the rights of its user, for each kind of request.
//
// Source: [MS-SMB2 3.3.5.9] [OP-57]
func TestRightsBoundTheAccessOfAnOpen(t *testing.T) {
	s := newSite(t, newRights().on)
	s.put("file", "dir/")
	const writes = vfs.WriteData | vfs.AppendData | vfs.WriteEA | vfs.WriteAttributes | vfs.Delete | vfs.DeleteChild | vfs.WriteDAC | vfs.WriteOwner
	for _, c := range []struct {
		name, user, path string
		change           []func(*vfs.OpenRequest)
		want             ntstatus.Status
	}{
		{"read", "reader", "file", []func(*vfs.OpenRequest){access(vfs.GenericRead)}, ntstatus.Success},
		{"list", "reader", "dir", []func(*vfs.OpenRequest){access(vfs.ListDirectory)}, ntstatus.Success},
		{"maximum", "reader", "file", []func(*vfs.OpenRequest){access(vfs.MaximumAllowed)}, ntstatus.Success},
		{"maximum of a directory", "reader", "dir", []func(*vfs.OpenRequest){access(vfs.MaximumAllowed)}, ntstatus.Success},
		{"write", "reader", "file", []func(*vfs.OpenRequest){access(vfs.WriteData)}, ntstatus.AccessDenied},
		{"append", "reader", "file", []func(*vfs.OpenRequest){access(vfs.AppendData)}, ntstatus.AccessDenied},
		{"delete", "reader", "file", []func(*vfs.OpenRequest){access(vfs.Delete)}, ntstatus.AccessDenied},
		{"attributes", "reader", "file", []func(*vfs.OpenRequest){access(vfs.WriteAttributes)}, ntstatus.AccessDenied},
		{"all", "reader", "file", []func(*vfs.OpenRequest){access(vfs.GenericAll)}, ntstatus.AccessDenied},
		{"create", "reader", "new", []func(*vfs.OpenRequest){access(vfs.ReadData), disposition(vfs.OpenIf)}, ntstatus.AccessDenied},
		{"make a directory", "reader", "new", []func(*vfs.OpenRequest){access(vfs.ReadData), disposition(vfs.Create), options(vfs.DirectoryFile)}, ntstatus.AccessDenied},
		{"empty", "reader", "file", []func(*vfs.OpenRequest){access(vfs.ReadData), disposition(vfs.OverwriteIf)}, ntstatus.AccessDenied},
		{"supersede", "reader", "file", []func(*vfs.OpenRequest){access(vfs.ReadData), disposition(vfs.Supersede)}, ntstatus.AccessDenied},
		{"delete on close", "reader", "file", []func(*vfs.OpenRequest){access(vfs.MaximumAllowed), options(vfs.DeleteOnClose)}, ntstatus.AccessDenied},
		{"read without rights", "other", "file", []func(*vfs.OpenRequest){access(vfs.GenericRead)}, ntstatus.AccessDenied},
		{"attributes without rights", "other", "file", []func(*vfs.OpenRequest){access(vfs.ReadAttributes)}, ntstatus.AccessDenied},
		{"a missing file without rights", "other", "missing", []func(*vfs.OpenRequest){access(vfs.ReadData)}, ntstatus.AccessDenied},
		{"all, with all rights", "writer", "file", []func(*vfs.OpenRequest){access(vfs.GenericAll)}, ntstatus.Success},
	} {
		o, err := s.open(c.path, append(c.change, byUser(c.user))...)
		wantStatus(t, c.name, err, c.want)
		if err != nil {
			continue
		}
		if got := o.Granted() | o.MaximalAccess(); c.user == "reader" && got&writes != 0 {
			t.Errorf("%s: a reader is granted %#x, of at most %#x", c.name, o.Granted(), o.MaximalAccess())
		}
		if v, err := o.VolumeInfo(); err == nil && v.ReadOnly != (c.user == "reader") {
			t.Errorf("%s: volume read-only is %t", c.name, v.ReadOnly)
		}
		closed(t, o)
	}
}

// Reauthorize closes the opens that new rights forbid, with their hooks, and no others.
func TestReauthorizeClosesForbiddenOpens(t *testing.T) {
	rights := newRights()
	s := newSite(t, rights.on)
	s.put("file")
	rights.set("demoted", vfs.ReadWrite)
	rights.set("removed", vfs.ReadOnly)
	open := func(name string, a vfs.Access) (o *vfs.Open, revoked *atomic.Bool) {
		o, revoked = s.mustOpen("file", byUser(name), access(a)), new(atomic.Bool)
		o.OnRevoke(func() { revoked.Store(true) })
		return o, revoked
	}
	opens := map[string]struct {
		o       *vfs.Open
		revoked *atomic.Bool
		stays   bool
	}{}
	for _, c := range []struct {
		name, user string
		access     vfs.Access
		stays      bool
	}{
		{"write of a user that keeps its rights", "writer", vfs.GenericAll, true},
		{"write of a demoted user", "demoted", vfs.GenericWrite, false},
		{"delete of a demoted user", "demoted", vfs.Delete | vfs.ReadData, false},
		{"read of a demoted user", "demoted", vfs.GenericRead, true},
		{"read of a removed user", "removed", vfs.GenericRead, false},
		{"attributes of a removed user", "removed", vfs.ReadAttributes, false},
	} {
		o, revoked := open(c.user, c.access)
		opens[c.name] = struct {
			o       *vfs.Open
			revoked *atomic.Bool
			stays   bool
		}{o, revoked, c.stays}
	}
	if n := s.Reauthorize(); n != 0 {
		t.Errorf("unchanged rights close %d opens", n)
	}
	rights.set("demoted", vfs.ReadOnly)
	rights.set("removed", vfs.NoAccess)
	if n := s.Reauthorize(); n != 4 {
		t.Errorf("%d opens are closed, want 4", n)
	}
	for name, c := range opens {
		err := c.o.Acquire()
		if err == nil {
			c.o.Release()
		}
		if (err == nil) != c.stays || c.revoked.Load() == c.stays {
			t.Errorf("%s: %v, revoked %t", name, err, c.revoked.Load())
		}
		closed(t, c.o)
	}
}

// An open that begins before the rights change, and reaches the table after Reauthorize, fails.
func TestReauthorizeFindsOpensInProgress(t *testing.T) {
	rights, h := newRights(), &hooked{}
	s := newSite(t, hook(h), rights.on)
	defer h.Backend.Close()
	s.put("file")
	h.looked = func(string) {
		rights.set("writer", vfs.ReadOnly)
		s.Reauthorize()
	}
	_, err := s.open("file", byUser("writer"), disposition(vfs.OverwriteIf))
	wantStatus(t, "open for a change while the right is withdrawn", err, ntstatus.AccessDenied)
	h.looked = nil
	o := s.mustOpen("file", byUser("writer"), access(vfs.ReadData))
	if info, err := o.Stat(); err != nil || info.Size == 0 {
		t.Errorf("the refused open emptied the file: %+v, %v", info, err)
	}
	closed(t, o)
}

// Opens of users whose rights change all the time are closed or allowed, never both.
func TestReauthorizeWithConcurrentOpens(t *testing.T) {
	rights := newRights()
	s := newSite(t, rights.on)
	s.put("file")
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if o, err := s.open("file", byUser("writer")); err == nil {
					o.Close()
				} else if ntstatus.Of(err) != ntstatus.AccessDenied {
					t.Error(err)
				}
			}
		})
	}
	for i := range 300 {
		rights.set("writer", vfs.Rights(i%3))
		s.Reauthorize()
	}
	rights.set("writer", vfs.NoAccess)
	s.Reauthorize()
	if o, err := s.open("file", byUser("writer")); err == nil {
		t.Error("open without rights")
		o.Close()
	}
	close(stop)
	all.Wait()
	if n := s.Stats().Opens; n != 0 {
		t.Errorf("%d opens are left", n)
	}
}
