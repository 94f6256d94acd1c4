package smbclient

import (
	"context"
	"errors"
	"fmt"
	"path"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// Tree is a share that the session is connected to.
//
// Source: [MS-SMB2 3.2.1.4]
type Tree struct {
	s          *Session
	id         uint32
	pipe       bool
	persistent bool
}

// Persistent reports whether the share grants opens that outlive their connection.
//
// Source: [MS-SMB2 2.2.10]
func (t *Tree) Persistent() bool { return t.persistent }

// IsPipe reports whether the share holds named pipes.
func (t *Tree) IsPipe() bool { return t.pipe }

// Disconnect ends the use of the share and closes its opens.
//
// Source: [MS-SMB2 3.2.4.22]
func (t *Tree) Disconnect(ctx context.Context) error { return timely(t.disconnect(ctx)) }

func (t *Tree) disconnect(ctx context.Context) error {
	return t.s.conn.run(ctx, request{command: smbwire.CommandTreeDisconnect, body: smbwire.Empty{}, treeID: t.id})
}

// CreateRequest opens or creates a file, directory or pipe. [MS-SMB2 2.2.13] defines the
// numbers.
type CreateRequest struct {
	// Name is slash-separated and relative to the share; "" and "." are its root.
	Name        string
	Access      uint32
	Share       uint32
	Disposition uint32
	Options     uint32
	// Attributes are for a file that is created.
	Attributes uint32
	// ResumeKey fetches the open's resume key in the same round trip; File.ResumeKey
	// returns it.
	ResumeKey bool
	// Persistent asks for an open that outlives its connection; nil for one that does not.
	Persistent *Persistence
	// Replay marks the repetition of a request with the same Persistent, whose response was lost.
	Replay bool
	// Reclaim is the open that the request takes over from a lost connection, under its Persistent;
	// nil for a new open.
	Reclaim *smbwire.FileID
}

// wire encodes the request.
func (q *CreateRequest) wire(t *Tree) (*smbwire.CreateRequest, error) {
	name, err := encodePath(q.Name)
	if err != nil {
		return nil, err
	}
	w := &smbwire.CreateRequest{
		OplockLevel: smbwire.OplockNone, ImpersonationLevel: smbwire.ImpersonationImpersonation,
		DesiredAccess: q.Access, FileAttributes: q.Attributes, ShareAccess: q.Share,
		CreateDisposition: q.Disposition, CreateOptions: q.Options, Name: name,
	}
	if !t.pipe {
		w.Contexts = []smbwire.CreateContext{{Name: smbwire.CreateContextQueryOnDiskID}}
	}
	if q.Persistent != nil {
		w.Contexts = append(w.Contexts, q.Persistent.context(q.Reclaim))
	}
	if t.persistent && t.s.app != [16]byte{} && q.Reclaim == nil {
		a := smbwire.AppInstance{ID: t.s.app}
		w.Contexts = append(w.Contexts, smbwire.CreateContext{Name: smbwire.CreateContextAppInstance, Data: a.AppendTo(nil)})
	}
	return w, nil
}

// Create opens or creates a file, directory or pipe.
//
// Errors: the server's status, such as ObjectNameNotFound (fs.ErrNotExist),
// ObjectNameCollision (fs.ErrExist), SharingViolation, AccessDenied (fs.ErrPermission);
// ObjectNameInvalid for a name that SMB cannot carry.
//
// Source: [MS-SMB2 3.2.4.3]
func (t *Tree) Create(ctx context.Context, q CreateRequest) (*File, error) {
	f, err := t.create(ctx, &q)
	if err != nil {
		return nil, timely(err)
	}
	return f, nil
}

func (t *Tree) create(ctx context.Context, q *CreateRequest) (*File, error) {
	w, err := q.wire(t)
	if err != nil {
		return nil, err
	}
	reqs := []request{{command: smbwire.CommandCreate, body: w, treeID: t.id, late: t.closeLate, replay: q.Replay}}
	if q.Reclaim != nil {
		reqs[0].late = nil // the open keeps its locks, for another attempt
	}
	if q.ResumeKey {
		reqs = append(reqs, ioctlRequest(t.id, resumeKeyRequest(smbwire.RelatedFileID)))
	}
	f := &File{t: t}
	var list []*pending
	err = t.s.conn.renewing(ctx, func() (*pending, error) {
		if list, err = t.s.conn.send(ctx, reqs...); err != nil {
			return nil, err
		}
		if err = t.created(ctx, list[0], q.Name, f); err != nil && q.ResumeKey {
			t.s.conn.abandon(list[1], false)
		}
		return list[0], err
	})
	if err != nil {
		return nil, err
	}
	if !q.ResumeKey {
		return f, nil
	}
	r, err := t.s.conn.result(ctx, list[1])
	if err == nil {
		f.key, err = ioctlOutput(r)
		t.s.conn.free(r)
	}
	var refused ntstatus.Status
	if err != nil && !errors.As(err, &refused) {
		f.closeSoon()
		return nil, err
	}
	return f, nil
}

// created waits for the response to a CREATE of name and stores it in f.
func (t *Tree) created(ctx context.Context, p *pending, name string, f *File) error {
	r, err := t.s.conn.result(ctx, p)
	if err != nil {
		return err
	}
	defer t.s.conn.free(r)
	resp, err := smbwire.DecodeCreateResponse(r.body())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	f.id, f.info = resp.FileID, createdInfo(path.Base(name), &resp)
	f.granted = granted(resp.Contexts)
	return nil
}

// closeLate closes the open of an abandoned CREATE.
func (t *Tree) closeLate(ctx context.Context, r *response) {
	if r.Status != ntstatus.Success {
		return
	}
	if resp, err := smbwire.DecodeCreateResponse(r.body()); err == nil {
		_ = (&File{t: t, id: resp.FileID}).close(ctx) // if it fails, the session's end does it
	}
}

// Stat describes a file, in one round trip.
//
// Errors: as Create.
func (t *Tree) Stat(ctx context.Context, name string) (FileInfo, error) {
	info, err := t.openAndClose(ctx, &CreateRequest{
		Name: name, Access: accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen,
	})
	return info, timely(err)
}

// Mkdir makes a directory, in one round trip.
//
// Errors: as Create; ObjectNameCollision if the name exists; ErrUnknownOutcome with the
// cause if the directory may exist nevertheless.
func (t *Tree) Mkdir(ctx context.Context, name string) error {
	_, err := t.openAndClose(ctx, &CreateRequest{
		Name: name, Access: accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionCreate, Options: optionDirectory,
	})
	return timely(err)
}

// Remove removes a file or an empty directory, in one round trip.
//
// Errors: as Create; DirectoryNotEmpty; ErrUnknownOutcome with the cause if it may be
// removed nevertheless.
func (t *Tree) Remove(ctx context.Context, name string) error {
	_, err := t.openAndClose(ctx, &CreateRequest{
		Name: name, Access: accessDelete | accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen,
	}, setInfo{smbwire.ClassDisposition, smbwire.DispositionInfo(true).AppendTo(nil)})
	return timely(err)
}

// Rename moves a file or directory within the share, in one round trip. replace allows the
// replacement of another file.
//
// Errors: as Create; ObjectNameCollision if the new name exists; ErrUnknownOutcome with the
// cause if it may be moved nevertheless.
func (t *Tree) Rename(ctx context.Context, from, to string, replace bool) error {
	name, err := encodePath(to)
	if err != nil {
		return err
	}
	info := smbwire.RenameInfo{ReplaceIfExists: replace, Name: name}
	_, err = t.openAndClose(ctx, &CreateRequest{
		Name: from, Access: accessDelete | accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen,
	}, setInfo{smbwire.ClassRename, info.AppendTo(nil)})
	return timely(err)
}

// setInfo is one change of a file, encoded for its class.
type setInfo struct {
	class smbwire.FileClass
	data  []byte
}

// openAndClose opens a file or directory, changes it, and closes it again, in one message.
//
// Source: [MS-SMB2 3.2.4.1.4]
func (t *Tree) openAndClose(ctx context.Context, q *CreateRequest, change ...setInfo) (FileInfo, error) {
	w, err := q.wire(t)
	if err != nil {
		return FileInfo{}, err
	}
	reqs := []request{{command: smbwire.CommandCreate, body: w, treeID: t.id}}
	for _, s := range change {
		reqs = append(reqs, request{
			command: smbwire.CommandSetInfo, treeID: t.id, payload: len(s.data),
			body: &smbwire.SetInfoRequest{InfoType: smbwire.InfoFile, Class: uint8(s.class), FileID: smbwire.RelatedFileID, Data: s.data},
		})
	}
	reqs = append(reqs, request{command: smbwire.CommandClose, treeID: t.id, body: &smbwire.CloseRequest{FileID: smbwire.RelatedFileID}})
	f := File{t: t}
	err = t.s.conn.renewing(ctx, func() (*pending, error) { return t.sendWhole(ctx, q.Name, reqs, &f) })
	if err != nil {
		return FileInfo{}, err
	}
	return f.info, nil
}

// sendWhole sends a CREATE of name, changes, and a CLOSE in one message, and waits for all of them. It
// stores the open in f, and returns the CREATE.
func (t *Tree) sendWhole(ctx context.Context, name string, reqs []request, f *File) (*pending, error) {
	list, err := t.s.conn.send(ctx, reqs...)
	if err != nil {
		return nil, err
	}
	err = t.created(ctx, list[0], name, f)
	unclosed := false // only the CLOSE failed
	for i, p := range list[1:] {
		if err != nil {
			t.s.conn.abandon(p, false)
			continue
		}
		var r *response
		if r, err = t.s.conn.result(ctx, p); err == nil {
			t.s.conn.free(r)
		} else {
			unclosed = i == len(list)-2
		}
	}
	if err != nil && !Unsent(err) && (unclosed || !Refused(err)) {
		err = &unknownOutcomeError{timely(err)}
	}
	return list[0], err
}

// Values of the CREATE requests of this package.
//
// Source: [MS-SMB2 2.2.13], [MS-SMB2 2.2.13.1.1]
const (
	accessReadAttributes = 0x00000080
	accessDelete         = 0x00010000
	accessSynchronize    = 0x00100000

	shareAll          = 0x7
	dispositionOpen   = 1
	dispositionCreate = 2
	optionDirectory   = 0x00000001
)
