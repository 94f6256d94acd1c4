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
	s      *Session
	id     uint32
	name   string
	pipe   bool
	access uint32
}

// Name is the share's name, as TreeConnect was told.
func (t *Tree) Name() string { return t.name }

// IsPipe reports whether the share holds named pipes.
func (t *Tree) IsPipe() bool { return t.pipe }

// MaximalAccess is what the user may do at most.
func (t *Tree) MaximalAccess() uint32 { return t.access }

// MaxRead is the longest read that is sent as one request, in bytes.
func (t *Tree) MaxRead() int { return t.s.neg.maxRead }

// MaxWrite is the longest write that is sent as one request, in bytes.
func (t *Tree) MaxWrite() int { return t.s.neg.maxWrite }

// MaxTransact is the longest input or output of an Ioctl, in bytes.
func (t *Tree) MaxTransact() int { return t.s.neg.maxTransact }

// Disconnect ends the use of the share, and closes what is open in it.
//
// Source: [MS-SMB2 3.2.4.22]
func (t *Tree) Disconnect(ctx context.Context) error {
	return fail("disconnect", t.name, t.disconnect(ctx))
}

func (t *Tree) disconnect(ctx context.Context) error {
	r, err := t.s.conn.call(ctx, part{command: smbwire.CommandTreeDisconnect, body: smbwire.Empty{}, treeID: t.id})
	if err == nil {
		t.s.conn.free(r)
	}
	return err
}

// CreateRequest says what to open or create. Numbers are those of [MS-SMB2
// 2.2.13].
type CreateRequest struct {
	// Name is slash-separated and relative to the share; "" and "." are its root.
	Name        string
	Access      uint32
	Share       uint32
	Disposition uint32
	Options     uint32
	// Attributes are for a file that is created.
	Attributes uint32
	// ResumeKey asks for the open's resume key in the same round trip. Whether
	// there is one is seen from File.ResumeKey.
	ResumeKey bool
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
	return w, nil
}

// Create opens or creates a file, directory or pipe.
//
// Errors: the server's status, such as ObjectNameNotFound (fs.ErrNotExist),
// ObjectNameCollision (fs.ErrExist), SharingViolation, AccessDenied
// (fs.ErrPermission); ObjectNameInvalid for a name that SMB cannot carry.
//
// Source: [MS-SMB2 3.2.4.3]
func (t *Tree) Create(ctx context.Context, q CreateRequest) (*File, error) {
	f, err := t.create(ctx, &q)
	if err != nil {
		return nil, fail("create", q.Name, err)
	}
	return f, nil
}

func (t *Tree) create(ctx context.Context, q *CreateRequest) (*File, error) {
	w, err := q.wire(t)
	if err != nil {
		return nil, err
	}
	parts := []part{{command: smbwire.CommandCreate, body: w, treeID: t.id, late: t.closeLate}}
	if q.ResumeKey {
		parts = append(parts, ioctlPart(t.id, resumeKeyRequest(smbwire.RelatedFileID)))
	}
	list, err := t.s.conn.send(ctx, parts...)
	if err != nil {
		return nil, err
	}
	f := &File{t: t, name: q.Name}
	if err := t.created(ctx, list[0], f); err != nil {
		if q.ResumeKey {
			t.s.conn.abandon(list[1], false)
		}
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

// created waits for the answer to a CREATE and enters what it says into f.
func (t *Tree) created(ctx context.Context, p *pending, f *File) error {
	r, err := t.s.conn.result(ctx, p)
	if err != nil {
		return err
	}
	defer t.s.conn.free(r)
	resp, err := smbwire.DecodeCreateResponse(r.body())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	f.id, f.action, f.info = resp.FileID, resp.CreateAction, createdInfo(path.Base(f.name), &resp)
	return nil
}

// closeLate closes what a CREATE opened whose caller has gone.
func (t *Tree) closeLate(ctx context.Context, r *response) {
	if r.Status != ntstatus.Success {
		return
	}
	if resp, err := smbwire.DecodeCreateResponse(r.body()); err == nil {
		_ = (&File{t: t, id: resp.FileID}).close(ctx) // if it fails, the session's end does it
	}
}

// Stat describes a file in one round trip.
//
// Errors: as Create.
func (t *Tree) Stat(ctx context.Context, name string) (FileInfo, error) {
	info, err := t.brief(ctx, &CreateRequest{
		Name: name, Access: accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen,
	})
	return info, fail("stat", name, err)
}

// Mkdir makes a directory in one round trip.
//
// Errors: as Create; ObjectNameCollision if there is something of the name; ErrUnanswered
// together with the cause if there may be the directory all the same.
func (t *Tree) Mkdir(ctx context.Context, name string) error {
	_, err := t.brief(ctx, &CreateRequest{
		Name: name, Access: accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionCreate, Options: optionDirectory,
	})
	return fail("mkdir", name, err)
}

// Remove removes a file or an empty directory in one round trip.
//
// Errors: as Create; DirectoryNotEmpty; ErrUnanswered together with the cause if it may be
// gone all the same.
func (t *Tree) Remove(ctx context.Context, name string) error {
	_, err := t.brief(ctx, &CreateRequest{
		Name: name, Access: accessDelete | accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen,
	}, setInfo{smbwire.ClassDisposition, smbwire.DispositionInfo(true).AppendTo(nil)})
	return fail("remove", name, err)
}

// Rename moves a file or directory within the share in one round trip. replace
// allows it to take the place of another file.
//
// Errors: as Create; ObjectNameCollision if there is something of the new name; ErrUnanswered
// together with the cause if it may be moved all the same.
func (t *Tree) Rename(ctx context.Context, from, to string, replace bool) error {
	name, err := encodePath(to)
	if err != nil {
		return fail("rename", to, err)
	}
	info := smbwire.RenameInfo{ReplaceIfExists: replace, Name: name}
	_, err = t.brief(ctx, &CreateRequest{
		Name: from, Access: accessDelete | accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen,
	}, setInfo{smbwire.ClassRename, info.AppendTo(nil)})
	return fail("rename", from, err)
}

// setInfo is one thing to change.
type setInfo struct {
	class smbwire.FileClass
	data  []byte
}

// brief opens something, changes it, and closes it again, all in one message.
//
// Source: [MS-SMB2 3.2.4.1.4]
func (t *Tree) brief(ctx context.Context, q *CreateRequest, change ...setInfo) (FileInfo, error) {
	w, err := q.wire(t)
	if err != nil {
		return FileInfo{}, err
	}
	parts := []part{{command: smbwire.CommandCreate, body: w, treeID: t.id}}
	for _, s := range change {
		parts = append(parts, part{
			command: smbwire.CommandSetInfo, treeID: t.id, payload: len(s.data),
			body: &smbwire.SetInfoRequest{InfoType: smbwire.InfoFile, Class: uint8(s.class), FileID: smbwire.RelatedFileID, Data: s.data},
		})
	}
	parts = append(parts, part{command: smbwire.CommandClose, treeID: t.id, body: &smbwire.CloseRequest{FileID: smbwire.RelatedFileID}})
	list, err := t.s.conn.send(ctx, parts...)
	if err != nil {
		return FileInfo{}, err
	}
	f := File{t: t, name: q.Name}
	err = t.created(ctx, list[0], &f)
	unclosed := false // all is done but the CLOSE
	for i, p := range list[1:] {
		if err != nil {
			t.s.conn.abandon(p, false)
			continue
		}
		var r *response
		if r, err = t.s.conn.result(ctx, p); err == nil {
			t.s.conn.free(r)
		} else {
			unclosed = i == len(change)
		}
	}
	if err != nil && (unclosed || !Refused(err)) {
		err = &unansweredError{timely(err)}
	}
	if err != nil {
		return FileInfo{}, err
	}
	return f.info, nil
}

// What the calls of one round trip ask for.
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

// OpenPipe opens a named pipe for reading and writing.
//
// Source: [LWIO §Network Discovery], [MS-SMB2 3.2.4.3]
func (t *Tree) OpenPipe(ctx context.Context, name string) (*File, error) {
	const readWrite = 0x0012019F
	return t.Create(ctx, CreateRequest{Name: name, Access: readWrite, Share: shareAll, Disposition: dispositionOpen})
}
