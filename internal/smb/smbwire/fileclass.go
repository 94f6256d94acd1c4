package smbwire

// FileClass numbers the kinds of information on a file.
//
// Source: [MS-FSCC 2.4]
type FileClass uint8

// The file information classes. The values of DirClass share the numbers.
const (
	ClassBasic           FileClass = 4
	ClassStandard        FileClass = 5
	ClassInternal        FileClass = 6
	ClassEA              FileClass = 7
	ClassAccess          FileClass = 8
	ClassName            FileClass = 9
	ClassRename          FileClass = 10
	ClassLink            FileClass = 11
	ClassDisposition     FileClass = 13
	ClassPosition        FileClass = 14
	ClassFullEA          FileClass = 15
	ClassMode            FileClass = 16
	ClassAlignment       FileClass = 17
	ClassAll             FileClass = 18
	ClassAllocation      FileClass = 19
	ClassEndOfFile       FileClass = 20
	ClassAlternateName   FileClass = 21
	ClassStream          FileClass = 22
	ClassPipe            FileClass = 23
	ClassCompression     FileClass = 28
	ClassNetworkOpen     FileClass = 34
	ClassAttributeTag    FileClass = 35
	ClassValidDataLength FileClass = 39
	ClassNormalizedName  FileClass = 48
	ClassID              FileClass = 59
	ClassDispositionEx   FileClass = 64
	ClassRenameEx        FileClass = 65
)

// Bits of DispositionEx.
//
// Source: [MS-FSCC 2.4.12]
const (
	DispositionDelete uint32 = 0x01
)

// File attributes.
//
// Source: [MS-FSCC 2.6]
const (
	AttributeDirectory uint32 = 0x00000010
)

func checkSize(structure string, b []byte, size int) error {
	if len(b) < size {
		return fault(structure, "", ErrShort)
	}
	return nil
}

// Uint32Info is the form of ClassEA, ClassAccess, ClassMode, ClassAlignment and
// ClassDispositionEx.
//
// Source: [MS-FSCC 2.4.1], [MS-FSCC 2.4.3], [MS-FSCC 2.4.12], [MS-FSCC 2.4.13], [MS-FSCC 2.4.31]
type Uint32Info uint32

// AppendTo appends the information.
func (i Uint32Info) AppendTo(b []byte) []byte { return le.AppendUint32(b, uint32(i)) }

// DecodeUint32Info decodes the information.
func DecodeUint32Info(b []byte) (Uint32Info, error) {
	if err := checkSize("32-bit information", b, 4); err != nil {
		return 0, err
	}
	return Uint32Info(le.Uint32(b)), nil
}

// Uint64Info is the form of ClassInternal, ClassPosition, ClassAllocation,
// ClassEndOfFile and ClassValidDataLength.
//
// Source: [MS-FSCC 2.4.4], [MS-FSCC 2.4.14], [MS-FSCC 2.4.27], [MS-FSCC 2.4.40], [MS-FSCC 2.4.49]
type Uint64Info uint64

// AppendTo appends the information.
func (i Uint64Info) AppendTo(b []byte) []byte { return le.AppendUint64(b, uint64(i)) }

// DecodeUint64Info decodes the information.
func DecodeUint64Info(b []byte) (Uint64Info, error) {
	if err := checkSize("64-bit information", b, 8); err != nil {
		return 0, err
	}
	return Uint64Info(le.Uint64(b)), nil
}

// DispositionInfo is the form of ClassDisposition: whether the file is deleted
// when it is closed.
//
// Source: [MS-FSCC 2.4.11]
type DispositionInfo bool

// AppendTo appends the information.
func (i DispositionInfo) AppendTo(b []byte) []byte { return appendBool(b, bool(i)) }

// DecodeDispositionInfo decodes the information.
func DecodeDispositionInfo(b []byte) (DispositionInfo, error) {
	if err := checkSize("disposition information", b, 1); err != nil {
		return false, err
	}
	return b[0] != 0, nil
}

// NameInfo is the form of ClassName, ClassAlternateName and ClassNormalizedName.
//
// Source: [MS-FSCC 2.1.7], [MS-FSCC 2.4.5], [MS-FSCC 2.4.32]
type NameInfo struct {
	// Name is UTF-16LE.
	Name []byte
}

const nameInfoFixed = 4

// AppendTo appends the information.
func (i *NameInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, uint32(len(i.Name)))
	return append(b, i.Name...)
}

const fileIDSize = 24

// FileIDInfo is the form of ClassID: an identity of the file that differs from all others of the
// host.
//
// Source: [MS-FSCC 2.4.26]
type FileIDInfo struct {
	Volume uint64
	ID     [16]byte
}

// AppendTo appends the information.
func (i *FileIDInfo) AppendTo(b []byte) []byte {
	return append(le.AppendUint64(b, i.Volume), i.ID[:]...)
}
