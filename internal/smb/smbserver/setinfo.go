package smbserver

import (
	"errors"
	"math"
	"strings"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// renameReplace is the flag of RenameEx that allows the target to be replaced.
//
// Source: [MS-FSCC 2.4.43]
const renameReplace = 0x1

// handleSetInfo serves SET_INFO.
//
// Source: [MS-SMB2 3.3.5.21]
func handleSetInfo(r *request, q smbwire.SetInfoRequest) ntstatus.Status {
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case !r.allows(uint32(len(q.Data)), 0):
		return ntstatus.InvalidParameter
	case o.pipe != nil:
		return ntstatus.NotSupported
	case q.InfoType == smbwire.InfoFile:
		var path string
		if r.conn.audited() {
			path = o.file.Path()
		}
		st = infoStatus(r.untilBroken(func(bool) error {
			return setFile(&r.conn.srv.lineages.kept, o, smbwire.FileClass(q.Class), q.Data)
		}))
		r.auditChange(o.file, path, smbwire.FileClass(q.Class), st)
	case q.InfoType >= smbwire.InfoFile && q.InfoType <= smbwire.InfoQuota:
		return ntstatus.NotSupported
	default:
		return ntstatus.InvalidParameter
	}
	if st == ntstatus.Success {
		r.resp.set(smbwire.SetInfoResponse{}.AppendTo(r.resp.begin(8)))
	}
	return st
}

// setFile changes the information of a class about a file.
//
// Source: [MS-SMB2 3.3.5.21.1], [MS-FSCC 2.4]
func setFile(k *keptFiles, o *open, class smbwire.FileClass, data []byte) error {
	f := o.file
	var err error
	switch class {
	case smbwire.ClassBasic:
		err = setBasic(f, data)
	case smbwire.ClassRename, smbwire.ClassRenameEx:
		err = rename(k, o, class, data)
	case smbwire.ClassDisposition:
		var i smbwire.DispositionInfo
		if i, err = smbwire.DecodeDispositionInfo(data); err == nil {
			err = k.setDeleting(f, bool(i))
		}
	case smbwire.ClassDispositionEx:
		err = setDisposition(k, f, data)
	case smbwire.ClassAllocation:
		err = setAllocation(f, data)
	case smbwire.ClassEndOfFile:
		var i smbwire.Uint64Info
		if i, err = smbwire.DecodeUint64Info(data); err == nil {
			err = setSize(f, i)
		}
	case smbwire.ClassPosition:
		var i smbwire.Uint64Info // reads and writes name their offset
		if i, err = smbwire.DecodeUint64Info(data); err == nil {
			o.position.Store(uint64(i))
		}
	case smbwire.ClassFullEA:
		return ntstatus.EAsNotSupported
	case smbwire.ClassLink, smbwire.ClassMode, smbwire.ClassValidDataLength:
		return ntstatus.NotSupported
	default:
		return ntstatus.InvalidInfoClass
	}
	return err
}

// infoStatus returns the status for an error of setFile.
func infoStatus(err error) ntstatus.Status {
	if errors.Is(err, smbwire.ErrShort) {
		return ntstatus.InfoLengthMismatch
	}
	return statusOf(err)
}

// setBasic sets times and attributes.
//
// Source: [MS-FSCC 2.4.7]
func setBasic(f *vfs.Open, data []byte) error {
	i, err := smbwire.DecodeBasicInfo(data)
	if err != nil {
		return err
	}
	if len(data) < 40 {
		return smbwire.ErrShort
	}
	var t vfs.Times
	for _, x := range []struct {
		from smbwire.Filetime
		to   *time.Time
	}{{i.CreationTime, &t.Created}, {i.LastAccessTime, &t.Accessed}, {i.LastWriteTime, &t.Modified}, {i.ChangeTime, new(time.Time)}} {
		switch x.from {
		case smbwire.FiletimeKeep, smbwire.FiletimeFreeze, smbwire.FiletimeThaw:
			continue
		}
		if x.from > math.MaxInt64 {
			return ntstatus.InvalidParameter
		}
		*x.to = x.from.Time()
	}
	if err := f.SetTimes(t); err != nil {
		return err
	}
	return f.SetAttributes(i.FileAttributes)
}

// rename moves a file within its share.
//
// Source: [MS-FSCC 2.4.42.2], [MS-FSCC 2.4.43]
func rename(k *keptFiles, o *open, class smbwire.FileClass, data []byte) error {
	i, err := smbwire.DecodeRenameInfo(data)
	if err != nil {
		return err
	}
	replace := i.ReplaceIfExists
	if class == smbwire.ClassRenameEx {
		flags, err := smbwire.DecodeUint32Info(data)
		if err != nil || flags&^renameReplace != 0 {
			return ntstatus.NotSupported
		}
		replace = flags&renameReplace != 0
	}
	name, err := smbwire.DecodeUTF16(i.Name)
	if err != nil {
		return err
	}
	path, ok := fromWire(strings.TrimPrefix(name, `\`))
	switch {
	case i.RootDirectory != 0:
		return ntstatus.InvalidParameter
	case !ok || path == "":
		return ntstatus.ObjectNameInvalid
	}
	if o.unpublished { // no record of a durable open names the file
		return o.file.Publish(path, replace)
	}
	return k.rename(o.file, path, replace)
}

// setDisposition sets or clears the deletion of a file on close, in the newer form.
//
// Source: [MS-FSCC 2.4.12]
func setDisposition(k *keptFiles, f *vfs.Open, data []byte) error {
	i, err := smbwire.DecodeUint32Info(data)
	if err != nil {
		return err
	}
	if uint32(i)&^smbwire.DispositionDelete != 0 {
		return ntstatus.NotSupported
	}
	return k.setDeleting(f, uint32(i)&smbwire.DispositionDelete != 0)
}

// setSize sets the length of a file.
func setSize(f *vfs.Open, size smbwire.Uint64Info) error {
	if size > math.MaxInt64 {
		return ntstatus.InvalidParameter
	}
	return f.Truncate(int64(size))
}

// setAllocation truncates a file that is longer than the allocation. It reserves no space
// beyond the length of the file.
//
// Source: [MS-FSCC 2.4.4]
func setAllocation(f *vfs.Open, data []byte) error {
	size, err := smbwire.DecodeUint64Info(data)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Dir || size > math.MaxInt64:
		return ntstatus.InvalidParameter
	case !f.Granted().Has(vfs.WriteData):
		return ntstatus.AccessDenied
	case uint64(size) >= uint64(info.Size):
		f.BreakLeases()
		return nil
	}
	return setSize(f, size)
}
