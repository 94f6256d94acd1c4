package smbwire

const (
	basicInfoSize       = 40
	standardInfoSize    = 24
	networkOpenInfoSize = 56
	attributeTagSize    = 8
	compressionInfoSize = 16
	renameInfoFixed     = 20
)

// BasicInfo is the form of ClassBasic. In SET_INFO, zero attributes and FiletimeKeep change
// nothing.
//
// Source: [MS-FSCC 2.4.7]
type BasicInfo struct {
	FileTimes
	FileAttributes uint32
}

// AppendTo appends the information.
func (i *BasicInfo) AppendTo(b []byte) []byte {
	b = i.FileTimes.appendTo(b)
	b = le.AppendUint32(b, i.FileAttributes)
	return le.AppendUint32(b, 0)
}

// DecodeBasicInfo decodes the information.
func DecodeBasicInfo(b []byte) (BasicInfo, error) {
	if err := checkSize("basic information", b, basicInfoSize); err != nil {
		return BasicInfo{}, err
	}
	return BasicInfo{FileTimes: fileTimes(b), FileAttributes: le.Uint32(b[fileTimesSize:])}, nil
}

// StandardInfo is the form of ClassStandard.
//
// Source: [MS-FSCC 2.4.47]
type StandardInfo struct {
	AllocationSize, EndOfFile uint64
	NumberOfLinks             uint32
	DeletePending, Directory  bool
}

// AppendTo appends the information.
func (i *StandardInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint64(b, i.AllocationSize)
	b = le.AppendUint64(b, i.EndOfFile)
	b = le.AppendUint32(b, i.NumberOfLinks)
	b = appendBool(b, i.DeletePending)
	b = appendBool(b, i.Directory)
	return le.AppendUint16(b, 0)
}

// DecodeStandardInfo decodes the information.
func DecodeStandardInfo(b []byte) (StandardInfo, error) {
	if err := checkSize("standard information", b, standardInfoSize); err != nil {
		return StandardInfo{}, err
	}
	return StandardInfo{
		AllocationSize: le.Uint64(b),
		EndOfFile:      le.Uint64(b[8:]),
		NumberOfLinks:  le.Uint32(b[16:]),
		DeletePending:  b[20] != 0,
		Directory:      b[21] != 0,
	}, nil
}

// AllInfo is the form of ClassAll.
//
// Source: [MS-FSCC 2.4.2]
type AllInfo struct {
	Basic                BasicInfo
	Standard             StandardInfo
	FileID               uint64
	EASize               uint32
	Access               uint32
	Position             uint64
	Mode                 uint32
	AlignmentRequirement uint32
	Name                 []byte
}

const allInfoName = 96

// AppendTo appends the information.
func (i *AllInfo) AppendTo(b []byte) []byte {
	b = i.Basic.AppendTo(b)
	b = i.Standard.AppendTo(b)
	b = le.AppendUint64(b, i.FileID)
	b = le.AppendUint32(b, i.EASize)
	b = le.AppendUint32(b, i.Access)
	b = le.AppendUint64(b, i.Position)
	b = le.AppendUint32(b, i.Mode)
	b = le.AppendUint32(b, i.AlignmentRequirement)
	return (&NameInfo{i.Name}).AppendTo(b)
}

// DecodeAllInfo decodes the information. The name may be cut, as a server does with
// BUFFER_OVERFLOW; the present part is returned.
func DecodeAllInfo(b []byte) (AllInfo, error) {
	const name = "all information"
	if err := checkSize(name, b, allInfoName+nameInfoFixed); err != nil {
		return AllInfo{}, err
	}
	i := AllInfo{
		FileID:               le.Uint64(b[64:]),
		EASize:               le.Uint32(b[72:]),
		Access:               le.Uint32(b[76:]),
		Position:             le.Uint64(b[80:]),
		Mode:                 le.Uint32(b[88:]),
		AlignmentRequirement: le.Uint32(b[92:]),
	}
	i.Basic, _ = DecodeBasicInfo(b)
	i.Standard, _ = DecodeStandardInfo(b[basicInfoSize:])
	text := b[allInfoName+nameInfoFixed:]
	if n := min(uint64(le.Uint32(b[allInfoName:])), uint64(len(text))); n > 0 {
		i.Name = text[:n:n]
	}
	return i, nil
}

// NetworkOpenInfo is the form of ClassNetworkOpen.
//
// Source: [MS-FSCC 2.4.34]
type NetworkOpenInfo struct {
	FileTimes
	AllocationSize, EndOfFile uint64
	FileAttributes            uint32
}

// AppendTo appends the information.
func (i *NetworkOpenInfo) AppendTo(b []byte) []byte {
	b = i.FileTimes.appendTo(b)
	b = le.AppendUint64(b, i.AllocationSize)
	b = le.AppendUint64(b, i.EndOfFile)
	b = le.AppendUint32(b, i.FileAttributes)
	return le.AppendUint32(b, 0)
}

// AttributeTagInfo is the form of ClassAttributeTag.
//
// Source: [MS-FSCC 2.4.6]
type AttributeTagInfo struct {
	FileAttributes, ReparseTag uint32
}

// AppendTo appends the information.
func (i *AttributeTagInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, i.FileAttributes)
	return le.AppendUint32(b, i.ReparseTag)
}

// CompressionInfo is the form of ClassCompression. Files are not compressed on disk: the
// shifts are sent as zero.
//
// Source: [MS-FSCC 2.4.9]
type CompressionInfo struct {
	CompressedFileSize uint64
	Format             uint16
}

// AppendTo appends the information.
func (i *CompressionInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint64(b, i.CompressedFileSize)
	b = le.AppendUint16(b, i.Format)
	return appendZeros(b, 6)
}

// RenameInfo is the form of ClassRename and ClassLink, as SMB 2 has it.
//
// Source: [MS-FSCC 2.4.42.2], [MS-FSCC 2.4.28.2]
type RenameInfo struct {
	ReplaceIfExists bool
	RootDirectory   uint64
	// Name is UTF-16LE, relative to the share's root, with backslashes.
	Name []byte
}

// AppendTo appends the information, padded to the 24 bytes that some servers require.
func (i *RenameInfo) AppendTo(b []byte) []byte {
	b = appendBool(b, i.ReplaceIfExists)
	b = appendZeros(b, 7)
	b = le.AppendUint64(b, i.RootDirectory)
	b = le.AppendUint32(b, uint32(len(i.Name)))
	b = append(b, i.Name...)
	return appendZeros(b, 4-len(i.Name))
}

// DecodeRenameInfo decodes the information.
func DecodeRenameInfo(b []byte) (RenameInfo, error) {
	const name = "rename information"
	if err := checkSize(name, b, renameInfoFixed); err != nil {
		return RenameInfo{}, err
	}
	text, err := rest(name, "FileName", b, renameInfoFixed, le.Uint32(b[16:]))
	return RenameInfo{ReplaceIfExists: b[0] != 0, RootDirectory: le.Uint64(b[8:]), Name: text}, err
}

// StreamInfo is one element of ClassStream.
//
// Source: [MS-FSCC 2.4.49]
type StreamInfo struct {
	Size, AllocationSize uint64
	// Name is UTF-16LE, such as ::$DATA.
	Name []byte
}

const streamInfoFixed = 24

// AppendStreamInfo appends the list.
func AppendStreamInfo(b []byte, list ...StreamInfo) []byte {
	start := len(b)
	for i, s := range list {
		at := len(b)
		b = le.AppendUint32(b, 0)
		b = le.AppendUint32(b, uint32(len(s.Name)))
		b = le.AppendUint64(b, s.Size)
		b = le.AppendUint64(b, s.AllocationSize)
		b = append(b, s.Name...)
		if i < len(list)-1 {
			b = pad8(b, start)
			le.PutUint32(b[at:], uint32(len(b)-at))
		}
	}
	return b
}
