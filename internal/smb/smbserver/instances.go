package smbserver

import (
	"log/slog"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// instance names an instance of an application of a user. A client that starts anew under the same name
// closes the durable opens that an earlier client has left. The zero id is no instance.
//
// Source: [MS-SMB2 2.2.13.2.13]
type instance struct {
	id   [16]byte
	user string
}

// instanceOf returns the instance of the contexts of a CREATE.
//
// Source: [MS-SMB2 3.3.5.9.13]
func (r *request) instanceOf(list []smbwire.CreateContext) (i instance, st ntstatus.Status) {
	found := false
	for _, x := range list {
		if x.Name != smbwire.CreateContextAppInstance {
			continue
		}
		a, err := smbwire.DecodeAppInstance(x.Data)
		switch {
		case err != nil:
			return instance{}, statusOf(err)
		case found:
			return instance{}, ntstatus.InvalidParameter
		}
		i, found = instance{id: a.ID, user: r.session.user}, true
	}
	if i.id == [16]byte{} || !r.conn.agreed.durable {
		return instance{}, ntstatus.Success
	}
	return i, ntstatus.Success
}

// closeInstance closes the durable opens of a file that other clients have made for an instance, and
// returns when nothing of them is in flight.
//
// Source: [MS-SMB2 3.3.5.9.13]
func (t *lineages) closeInstance(i instance, s *Session, share *vfs.Share, path string) {
	if i.id == [16]byte{} {
		return
	}
	client := s.conn.agreed.client.GUID
	var gone []*vfs.Open
	handles := make(map[*open]*Session)
	t.mu.Lock()
	for d := range t.instances[i] {
		if d.key.client != client && d.file.Share() == share && d.file.Path() == path {
			gone = append(gone, d.file)
			if d.session != nil {
				handles[d.handle] = d.session
			}
		}
	}
	t.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	s.audit("opens of an earlier client closed", slog.String("share", share.Name), slog.String("path", path), slog.Int("opens", len(gone)))
	for o, by := range handles {
		by.handles.remove(o)
	}
	t.files.CloseAll(gone...)
}

// addInstanceLocked adds an open to those of its instance. Precondition: mu is held.
func (t *lineages) addInstanceLocked(d *durable) {
	if d.app.id == [16]byte{} {
		return
	}
	if t.instances[d.app] == nil {
		t.instances[d.app] = make(map[*durable]struct{})
	}
	t.instances[d.app][d] = struct{}{}
}

// removeInstanceLocked removes an open from those of its instance. Precondition: mu is held.
func (t *lineages) removeInstanceLocked(d *durable) {
	delete(t.instances[d.app], d)
	if len(t.instances[d.app]) == 0 {
		delete(t.instances, d.app)
	}
}
