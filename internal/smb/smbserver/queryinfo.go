package smbserver

import (
	"encoding/binary"
	"strings"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// information is the result of a query. A client may get a part of it.
type information struct {
	b     []byte
	least int // how much of b must fit, in bytes
}

// whole returns information that must fit as a whole.
func whole(b []byte) (information, ntstatus.Status) {
	return information{b, len(b)}, ntstatus.Success
}

// handleQueryInfo serves QUERY_INFO of a file, the file system below it, or its security.
//
// Source: [MS-SMB2 3.3.5.20]
func handleQueryInfo(r *request, q smbwire.QueryInfoRequest) ntstatus.Status {
	o, st := r.open(q.FileID)
	if st != ntstatus.Success {
		return st
	}
	if !r.allows(uint32(len(q.Input)), q.OutputBufferLength) {
		return ntstatus.InvalidParameter
	}
	var i information
	switch {
	case q.InfoType == smbwire.InfoFile && o.pipe != nil:
		i, st = queryPipe(smbwire.FileClass(q.Class))
	case q.InfoType == smbwire.InfoFile:
		i, st = queryFile(o, smbwire.FileClass(q.Class))
	case q.InfoType == smbwire.InfoFileSystem && o.file != nil:
		i, st = queryVolume(o.file, smbwire.FSClass(q.Class))
	case q.InfoType == smbwire.InfoSecurity && o.file != nil:
		return querySecurity(r, o.file, &q)
	case q.InfoType >= smbwire.InfoFile && q.InfoType <= smbwire.InfoQuota:
		return ntstatus.NotSupported
	default:
		return ntstatus.InvalidParameter
	}
	if st != ntstatus.Success {
		return st
	}
	if int(q.OutputBufferLength) < i.least {
		return ntstatus.InfoLengthMismatch
	}
	if len(i.b) > int(q.OutputBufferLength) {
		i.b, st = i.b[:q.OutputBufferLength], ntstatus.BufferOverflow
	}
	return respondBuffer(r, i.b, st)
}

// respondBuffer makes the response of a query.
func respondBuffer(r *request, b []byte, st ntstatus.Status) ntstatus.Status {
	if !r.reserve(bufferFixed + len(b)) {
		return ntstatus.ConnectionDisconnected
	}
	resp := smbwire.BufferResponse{Data: b}
	r.resp.set(resp.AppendTo(r.resp.begin(bufferFixed + len(b))))
	return st
}

// querySecurity makes the response with a security descriptor. The descriptor is never
// truncated: if it does not fit, the response has its length.
//
// Source: [MS-SMB2 3.3.5.20.3], [MS-SMB2 2.2.2]
func querySecurity(r *request, f *vfs.Open, q *smbwire.QueryInfoRequest) ntstatus.Status {
	if !f.Granted().Has(vfs.ReadControl) {
		return ntstatus.AccessDenied
	}
	if q.AdditionalInformation&securitySACL != 0 {
		return ntstatus.AccessDenied // it would take AccessSystemSecurity
	}
	b := securityDescriptor(q.AdditionalInformation, uint32(f.MaximalAccess()))
	if len(b) <= int(q.OutputBufferLength) {
		return respondBuffer(r, b, ntstatus.Success)
	}
	need := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
	if r.conn.agreed.dialect == smbwire.Dialect311 {
		r.resp.failure.Contexts = []smbwire.ErrorContext{{Data: need}}
	} else {
		r.resp.failure.Data = need
	}
	return ntstatus.BufferTooSmall
}

// queryFile returns the information of a class about a file.
//
// Source: [MS-SMB2 3.3.5.20.1], [MS-FSCC 2.4]
func queryFile(o *open, class smbwire.FileClass) (information, ntstatus.Status) {
	f := o.file
	switch class {
	case smbwire.ClassEA:
		return whole(smbwire.Uint32Info(0).AppendTo(nil))
	case smbwire.ClassAccess:
		return whole(smbwire.Uint32Info(f.Granted()).AppendTo(nil))
	case smbwire.ClassPosition:
		return whole(smbwire.Uint64Info(o.position.Load()).AppendTo(nil))
	case smbwire.ClassMode:
		return whole(smbwire.Uint32Info(mode(f)).AppendTo(nil))
	case smbwire.ClassAlignment:
		return whole(smbwire.Uint32Info(0).AppendTo(nil))
	case smbwire.ClassFullEA:
		if !f.Granted().Has(vfs.ReadEA) {
			return information{}, ntstatus.AccessDenied
		}
		return information{}, ntstatus.EAsNotSupported
	}
	info, err := f.Stat()
	if err != nil {
		return information{}, statusOf(err)
	}
	if needsAttributes(class) && !f.Granted().Has(vfs.ReadAttributes) {
		return information{}, ntstatus.AccessDenied
	}
	switch class {
	case smbwire.ClassBasic:
		i := basicInfo(&info)
		return whole(i.AppendTo(nil))
	case smbwire.ClassStandard:
		i := standardInfo(&info)
		return whole(i.AppendTo(nil))
	case smbwire.ClassInternal:
		return whole(smbwire.Uint64Info(info.ID).AppendTo(nil))
	case smbwire.ClassID:
		i := smbwire.FileIDInfo{Volume: info.Device}
		binary.LittleEndian.PutUint64(i.ID[:], info.ID)
		return whole(i.AppendTo(nil))
	case smbwire.ClassNetworkOpen:
		i := smbwire.NetworkOpenInfo{
			FileTimes: fileTimes(&info), AllocationSize: uint64(info.AllocationSize),
			EndOfFile: uint64(info.Size), FileAttributes: info.ReportedAttributes(),
		}
		return whole(i.AppendTo(nil))
	case smbwire.ClassAttributeTag:
		i := smbwire.AttributeTagInfo{FileAttributes: info.ReportedAttributes()}
		return whole(i.AppendTo(nil))
	case smbwire.ClassCompression:
		i := smbwire.CompressionInfo{CompressedFileSize: uint64(info.Size)}
		return whole(i.AppendTo(nil))
	}
	return queryNamed(o, &info, class)
}

// needsAttributes reports whether a class takes the right to read attributes.
//
// Source: [MS-FSA 2.1.5.12]
func needsAttributes(class smbwire.FileClass) bool {
	switch class {
	case smbwire.ClassBasic, smbwire.ClassAll, smbwire.ClassNetworkOpen, smbwire.ClassAttributeTag:
		return true
	}
	return false
}

// queryNamed returns the information of the classes that end with a name. The name may be
// truncated.
func queryNamed(o *open, info *vfs.FileInfo, class smbwire.FileClass) (information, ntstatus.Status) {
	f := o.file
	path, err := smbwire.UTF16(strings.ReplaceAll(f.Path(), "/", `\`))
	if err != nil {
		return information{}, statusOf(err)
	}
	rooted := append([]byte{'\\', 0}, path...)
	switch class {
	case smbwire.ClassAll:
		i := smbwire.AllInfo{
			Basic: basicInfo(info), Standard: standardInfo(info), FileID: info.ID,
			Access: uint32(f.Granted()), Position: o.position.Load(), Mode: mode(f), Name: rooted,
		}
		return information{i.AppendTo(nil), 100}, ntstatus.Success
	case smbwire.ClassName:
		i := smbwire.NameInfo{Name: rooted}
		return information{i.AppendTo(nil), 4}, ntstatus.Success
	case smbwire.ClassNormalizedName:
		i := smbwire.NameInfo{Name: path}
		return information{i.AppendTo(nil), 4}, ntstatus.Success
	case smbwire.ClassStream:
		if info.Dir {
			return information{}, ntstatus.Success
		}
		name, err := smbwire.UTF16("::$DATA")
		if err != nil {
			return information{}, statusOf(err)
		}
		s := smbwire.StreamInfo{Size: uint64(info.Size), AllocationSize: uint64(info.AllocationSize), Name: name}
		return whole(smbwire.AppendStreamInfo(nil, s))
	case smbwire.ClassAlternateName:
		// There are no short names: the name of the file itself opens it.
		name, err := smbwire.UTF16(info.Name)
		if err != nil {
			return information{}, statusOf(err)
		}
		i := smbwire.NameInfo{Name: name}
		return information{i.AppendTo(nil), 4}, ntstatus.Success
	}
	return information{}, ntstatus.InvalidInfoClass
}

// modeOptions are the create options that FileModeInformation repeats.
//
// Source: [MS-FSCC 2.4.31]
const modeOptions = vfs.WriteThrough | vfs.SequentialOnly | vfs.NoIntermediateBuffering | vfs.DeleteOnClose

// mode returns the mode of FileModeInformation.
func mode(f *vfs.Open) uint32 { return uint32(f.Options() & modeOptions) }

// basicInfo returns the times and attributes of a file.
func basicInfo(i *vfs.FileInfo) smbwire.BasicInfo {
	return smbwire.BasicInfo{FileTimes: fileTimes(i), FileAttributes: i.ReportedAttributes()}
}

// standardInfo returns the sizes, links and kind of a file.
func standardInfo(i *vfs.FileInfo) smbwire.StandardInfo {
	return smbwire.StandardInfo{
		AllocationSize: uint64(i.AllocationSize), EndOfFile: uint64(i.Size),
		NumberOfLinks: max(i.Links, 1), DeletePending: i.DeletePending, Directory: i.Dir,
	}
}
