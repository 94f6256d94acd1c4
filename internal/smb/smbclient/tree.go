package smbclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

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
	whole      atomic.Int32 // whether the server writes whole files; 0 before it is asked
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
	// DeletePending has the server delete the file when it is closed, as File.SetDelete does, in the
	// same round trip. Keep takes that back.
	DeletePending bool
	// Data is written to the file from its start in the same round trip: at most MaxSmall bytes. It is not
	// used any more when Create returns.
	Data []byte
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

// Create opens or creates a file, directory or pipe. If Data or DeletePending of q fails, it closes
// the file and returns that error.
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
	switch {
	case err != nil:
		return nil, err
	case len(q.Data) > t.MaxSmall():
		return nil, ntstatus.InvalidParameter
	}
	f := &File{t: t}
	steps := []step{t.createStep(q, w, f)}
	if q.Reclaim == nil { // a reclaimed open keeps its locks, for another attempt
		steps[0].late = t.closeLate
	}
	if q.DeletePending {
		steps = append(steps, t.setStep(smbwire.RelatedFileID, deletePending(true)))
	}
	if len(q.Data) > 0 {
		steps = append(steps, t.writeStep(smbwire.RelatedFileID, q.Data))
	}
	content := len(steps)
	if q.ResumeKey {
		steps = append(steps, step{request: ioctlRequest(t.id, resumeKeyRequest(smbwire.RelatedFileID)), done: func(r *response) (err error) {
			f.key, err = ioctlOutput(r)
			return err
		}})
	}
	failed := 0
	err = t.s.conn.renewing(ctx, func() (first *pending, err error) {
		first, failed, err = t.s.conn.exchangeAll(ctx, steps)
		return first, err
	})
	var refused ntstatus.Status
	switch {
	case err == nil, failed == content && errors.As(err, &refused): // a server without resume keys
		return f, nil
	case failed > 0:
		f.closeSoon()
	}
	return nil, err
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
	}, deletePending(true))
	return timely(err)
}

// Rename moves a file or directory within the share, in one round trip. replace allows the
// replacement of another file.
//
// Errors: as Create; ObjectNameCollision if the new name exists; ErrUnknownOutcome with the
// cause if it may be moved nevertheless.
func (t *Tree) Rename(ctx context.Context, from, to string, replace bool) error {
	rename, err := renameTo(to, replace)
	if err != nil {
		return err
	}
	_, err = t.openAndClose(ctx, &CreateRequest{
		Name: from, Access: accessDelete | accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen,
	}, rename)
	return timely(err)
}

// setInfo is one change of a file, encoded for its class.
type setInfo struct {
	class smbwire.FileClass
	data  []byte
}

// deletePending is the change that has a file deleted when it is closed, or not.
func deletePending(on bool) setInfo {
	return setInfo{smbwire.ClassDisposition, smbwire.DispositionInfo(on).AppendTo(nil)}
}

// renameTo is the change of the name of a file.
func renameTo(name string, replace bool) (setInfo, error) {
	b, err := encodePath(name)
	if err != nil {
		return setInfo{}, err
	}
	info := smbwire.RenameInfo{ReplaceIfExists: replace, Name: b}
	return setInfo{smbwire.ClassRename, info.AppendTo(nil)}, nil
}

// openAndClose opens a file or directory, changes it, and closes it again, in one message.
func (t *Tree) openAndClose(ctx context.Context, q *CreateRequest, change ...setInfo) (FileInfo, error) {
	w, err := q.wire(t)
	if err != nil {
		return FileInfo{}, err
	}
	f := File{t: t}
	steps := []step{t.createStep(q, w, &f)}
	for _, s := range change {
		steps = append(steps, t.setStep(smbwire.RelatedFileID, s))
	}
	steps = append(steps, t.closeStep(smbwire.RelatedFileID))
	return f.info, t.changeAll(ctx, steps)
}

// changeAll sends a change in one message, whose last step closes the file.
//
// Errors: ErrUnknownOutcome with the cause if no response says whether the change is done.
func (t *Tree) changeAll(ctx context.Context, steps []step) error {
	return t.s.conn.renewing(ctx, func() (*pending, error) {
		first, failed, err := t.s.conn.exchangeAll(ctx, steps)
		unclosed := failed == len(steps)-1
		if first != nil && err != nil && !Unsent(err) && (unclosed || !Refused(err)) {
			err = &unknownOutcomeError{timely(err)}
		}
		return first, err
	})
}

// MaxSmall returns the most bytes that ReadHead and CreateRequest.Data transfer, at most 64 KiB.
func (t *Tree) MaxSmall() int { return min(maxSmall, t.s.neg.maxRead, t.s.neg.maxWrite) }

// ReadHead opens a file, reads its first bytes into p, and closes it, in one round trip. It returns how
// many bytes of p it has filled, fewer than all only where the file ends, and the file as the open found it.
// p has at most MaxSmall bytes, and is not used any more when ReadHead returns.
//
// Errors: as Create; FileIsADirectory.
//
// Source: [MS-SMB2 3.2.4.1.4]
func (t *Tree) ReadHead(ctx context.Context, name string, p []byte) (int, FileInfo, error) {
	q := &CreateRequest{
		Name: name, Access: accessReadData | accessReadAttributes | accessSynchronize, Share: shareAll,
		Disposition: dispositionOpen, Options: optionNonDirectory,
	}
	w, err := q.wire(t)
	switch {
	case err != nil:
		return 0, FileInfo{}, err
	case len(p) > t.MaxSmall():
		return 0, FileInfo{}, ntstatus.InvalidParameter
	}
	n, f := 0, File{t: t}
	steps := []step{t.createStep(q, w, &f), t.readStep(smbwire.RelatedFileID, p, &n), t.closeStep(smbwire.RelatedFileID)}
	err = t.s.conn.renewing(ctx, func() (*pending, error) {
		first, _, err := t.s.conn.exchangeAll(ctx, steps)
		return first, err
	})
	return n, f.info, timely(err)
}

// Space is the size of a file system, in bytes: all of it, the free part, the part of that which the user may take, and
// the unit of allocation, which is above 0.
type Space struct {
	Total, Free, Available, BlockSize int64
}

// Space asks for the size of the file system of the share, in one round trip.
//
// Errors: as Create.
//
// Source: [MS-FSCC 2.5.4]
func (t *Tree) Space(ctx context.Context) (Space, error) {
	q := &CreateRequest{Access: accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen, Options: optionDirectory}
	w, err := q.wire(t)
	if err != nil {
		return Space{}, err
	}
	const room = 32
	var f File
	var info []byte
	steps := []step{t.createStep(q, w, &f), t.volumeStep(smbwire.RelatedFileID, smbwire.ClassFSFullSize, room, &info), t.closeStep(smbwire.RelatedFileID)}
	err = t.s.conn.renewing(ctx, func() (*pending, error) {
		first, _, err := t.s.conn.exchangeAll(ctx, steps)
		return first, err
	})
	if err != nil {
		return Space{}, timely(err)
	}
	i, err := smbwire.DecodeFSFullSizeInfo(info)
	if err != nil {
		return Space{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return spaceOf(&i)
}

// spaceOf checks the numbers of a server: each product is an int64.
func spaceOf(i *smbwire.FSFullSizeInfo) (Space, error) {
	unit := uint64(i.SectorsPerUnit) * uint64(i.BytesPerSector)
	if unit == 0 || max(unit, i.TotalUnits, i.ActualAvailableUnits, i.CallerAvailableUnits) > math.MaxInt64/unit {
		return Space{}, fmt.Errorf("%w: the size of the file system: %w", ErrProtocol, smbwire.ErrValue)
	}
	size := func(units uint64) int64 { return int64(units * unit) }
	return Space{size(i.TotalUnits), size(i.ActualAvailableUnits), size(i.CallerAvailableUnits), int64(unit)}, nil
}

// Values of the CREATE requests of this package.
//
// Source: [MS-SMB2 2.2.13], [MS-SMB2 2.2.13.1.1]
const (
	accessReadData        = 0x00000001
	accessWriteData       = 0x00000002
	accessReadAttributes  = 0x00000080
	accessWriteAttributes = 0x00000100
	accessDelete          = 0x00010000
	accessSynchronize     = 0x00100000

	shareAll           = 0x7
	dispositionOpen    = 1
	dispositionCreate  = 2
	optionDirectory    = 0x00000001
	optionNonDirectory = 0x00000040
)

// maxSmall bounds the data that share a message with the open of their file, in bytes.
const maxSmall = 64 << 10
