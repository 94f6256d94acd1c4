package smbserver

import (
	"encoding/binary"
	"strings"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// answer is information on its way to the client.
type answer struct {
	b []byte
	// least is how much of b must fit: what is longer may be cut.
	least int
}

// fixed is information that must fit as a whole.
func fixed(b []byte) (answer, ntstatus.Status) { return answer{b, len(b)}, ntstatus.Success }

// queryInfo tells about a file, the file system below it, or its security.
//
// Source: [MS-SMB2 3.3.5.20]
func (r *request) queryInfo() ntstatus.Status {
	q, err := smbwire.DecodeQueryInfoRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	o, st := r.open(q.FileID)
	if st != ntstatus.Success {
		return st
	}
	if q.OutputBufferLength > r.conn.maxTransfer || !r.paid(uint32(len(q.Input)), q.OutputBufferLength) {
		return ntstatus.InvalidParameter
	}
	var a answer
	switch {
	case q.InfoType == smbwire.InfoFile && o.pipe != nil:
		a, st = queryPipe(smbwire.FileClass(q.Class))
	case q.InfoType == smbwire.InfoFile:
		a, st = queryFile(o.file, smbwire.FileClass(q.Class))
	case q.InfoType == smbwire.InfoFileSystem && o.file != nil:
		a, st = queryVolume(o.file, smbwire.FSClass(q.Class))
	case q.InfoType == smbwire.InfoSecurity && o.file != nil:
		return r.querySecurity(o.file, &q)
	case q.InfoType >= smbwire.InfoFile && q.InfoType <= smbwire.InfoQuota:
		return ntstatus.NotSupported
	default:
		return ntstatus.InvalidParameter
	}
	if st != ntstatus.Success {
		return st
	}
	if int(q.OutputBufferLength) < a.least {
		return ntstatus.InfoLengthMismatch
	}
	if len(a.b) > int(q.OutputBufferLength) {
		a.b, st = a.b[:q.OutputBufferLength], ntstatus.BufferOverflow
	}
	return r.answerBuffer(a.b, st)
}

func (r *request) answerBuffer(b []byte, st ntstatus.Status) ntstatus.Status {
	resp := smbwire.BufferResponse{Data: b}
	r.set(resp.AppendTo(r.body(bufferFixed + len(b))))
	return st
}

// querySecurity answers with a security descriptor, which is never cut: if it
// does not fit, the answer says how long it is.
//
// Source: [MS-SMB2 3.3.5.20.3], [MS-SMB2 2.2.2]
func (r *request) querySecurity(f *vfs.Open, q *smbwire.QueryInfoRequest) ntstatus.Status {
	if !f.Granted().Has(vfs.ReadControl) {
		return ntstatus.AccessDenied
	}
	if q.AdditionalInformation&securitySACL != 0 {
		return ntstatus.AccessDenied // it would take AccessSystemSecurity
	}
	b := securityDescriptor(q.AdditionalInformation, uint32(f.MaximalAccess()))
	if len(b) <= int(q.OutputBufferLength) {
		return r.answerBuffer(b, ntstatus.Success)
	}
	need := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
	if r.conn.dialect == smbwire.Dialect311 {
		r.failure.Contexts = []smbwire.ErrorContext{{Data: need}}
	} else {
		r.failure.Data = need
	}
	return ntstatus.BufferTooSmall
}

// queryFile tells about a file.
//
// Source: [MS-SMB2 3.3.5.20.1], [MS-FSCC 2.4]
func queryFile(f *vfs.Open, class smbwire.FileClass) (answer, ntstatus.Status) {
	switch class {
	case smbwire.ClassEA:
		return fixed(smbwire.Uint32Info(0).AppendTo(nil))
	case smbwire.ClassAccess:
		return fixed(smbwire.Uint32Info(f.Granted()).AppendTo(nil))
	case smbwire.ClassPosition:
		return fixed(smbwire.Uint64Info(0).AppendTo(nil))
	case smbwire.ClassMode:
		return fixed(smbwire.Uint32Info(mode(f)).AppendTo(nil))
	case smbwire.ClassAlignment:
		return fixed(smbwire.Uint32Info(0).AppendTo(nil))
	case smbwire.ClassFullEA:
		return answer{}, ntstatus.EAsNotSupported
	}
	info, err := f.Stat()
	if err != nil {
		return answer{}, statusOf(err)
	}
	if needsAttributes(class) && !f.Granted().Has(vfs.ReadAttributes) {
		return answer{}, ntstatus.AccessDenied
	}
	switch class {
	case smbwire.ClassBasic:
		i := basicInfo(&info)
		return fixed(i.AppendTo(nil))
	case smbwire.ClassStandard:
		i := standardInfo(&info)
		return fixed(i.AppendTo(nil))
	case smbwire.ClassInternal:
		return fixed(smbwire.Uint64Info(info.ID).AppendTo(nil))
	case smbwire.ClassNetworkOpen:
		i := smbwire.NetworkOpenInfo{
			FileTimes: fileTimes(&info), AllocationSize: uint64(info.AllocationSize),
			EndOfFile: uint64(info.Size), FileAttributes: attributes(&info),
		}
		return fixed(i.AppendTo(nil))
	case smbwire.ClassAttributeTag:
		i := smbwire.AttributeTagInfo{FileAttributes: attributes(&info)}
		return fixed(i.AppendTo(nil))
	case smbwire.ClassCompression:
		i := smbwire.CompressionInfo{CompressedFileSize: uint64(info.Size)}
		return fixed(i.AppendTo(nil))
	}
	return queryNamed(f, &info, class)
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

// queryNamed gives the classes that end with a name, which may be cut.
func queryNamed(f *vfs.Open, info *vfs.FileInfo, class smbwire.FileClass) (answer, ntstatus.Status) {
	path, err := smbwire.UTF16(strings.ReplaceAll(f.Path(), "/", `\`))
	if err != nil {
		return answer{}, statusOf(err)
	}
	rooted := append([]byte{'\\', 0}, path...)
	switch class {
	case smbwire.ClassAll:
		i := smbwire.AllInfo{
			Basic: basicInfo(info), Standard: standardInfo(info), FileID: info.ID,
			Access: uint32(f.Granted()), Mode: mode(f), Name: rooted,
		}
		return answer{i.AppendTo(nil), 100}, ntstatus.Success
	case smbwire.ClassName:
		i := smbwire.NameInfo{Name: rooted}
		return answer{i.AppendTo(nil), 4}, ntstatus.Success
	case smbwire.ClassNormalizedName:
		i := smbwire.NameInfo{Name: path}
		return answer{i.AppendTo(nil), 4}, ntstatus.Success
	case smbwire.ClassStream:
		if info.Dir {
			return answer{}, ntstatus.Success
		}
		name, err := smbwire.UTF16("::$DATA")
		if err != nil {
			return answer{}, statusOf(err)
		}
		s := smbwire.StreamInfo{Size: uint64(info.Size), AllocationSize: uint64(info.AllocationSize), Name: name}
		return fixed(smbwire.AppendStreamInfo(nil, s))
	case smbwire.ClassAlternateName:
		// There are no short names; what a file can be opened by is its own.
		name, err := smbwire.UTF16(info.Name)
		if err != nil {
			return answer{}, statusOf(err)
		}
		i := smbwire.NameInfo{Name: name}
		return answer{i.AppendTo(nil), 4}, ntstatus.Success
	}
	return answer{}, ntstatus.InvalidInfoClass
}

// modeOptions are the create options that FileModeInformation repeats.
//
// Source: [MS-FSCC 2.4.31]
const modeOptions = vfs.WriteThrough | vfs.SequentialOnly | vfs.NoIntermediateBuffering | vfs.DeleteOnClose

func mode(f *vfs.Open) uint32 { return uint32(f.Options() & modeOptions) }

func basicInfo(i *vfs.FileInfo) smbwire.BasicInfo {
	return smbwire.BasicInfo{FileTimes: fileTimes(i), FileAttributes: attributes(i)}
}

func standardInfo(i *vfs.FileInfo) smbwire.StandardInfo {
	return smbwire.StandardInfo{
		AllocationSize: uint64(i.AllocationSize), EndOfFile: uint64(i.Size),
		NumberOfLinks: max(i.Links, 1), DeletePending: i.DeletePending, Directory: i.Dir,
	}
}

// queryPipe tells about a named pipe.
//
// Source: [MS-FSCC 2.4.36], [MS-FSCC 2.4.47]
func queryPipe(class smbwire.FileClass) (answer, ntstatus.Status) {
	switch class {
	case smbwire.ClassStandard:
		i := smbwire.StandardInfo{AllocationSize: pipeAllocation, NumberOfLinks: 1, DeletePending: true}
		return fixed(i.AppendTo(nil))
	case smbwire.ClassPipe:
		return fixed(smbwire.Uint64Info(1).AppendTo(nil)) // message mode, blocking
	}
	return answer{}, ntstatus.InvalidParameter
}
