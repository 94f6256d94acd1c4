package vfs

// Access is an NT access mask.
//
// Source: [MS-SMB2 2.2.13.1]
type Access uint32

// The rights of files and, with a second name, of directories.
const (
	ReadData        Access = 0x00000001
	WriteData       Access = 0x00000002
	AppendData      Access = 0x00000004
	ReadEA          Access = 0x00000008
	WriteEA         Access = 0x00000010
	Execute         Access = 0x00000020
	DeleteChild     Access = 0x00000040
	ReadAttributes  Access = 0x00000080
	WriteAttributes Access = 0x00000100
	Delete          Access = 0x00010000
	ReadControl     Access = 0x00020000
	WriteDAC        Access = 0x00040000
	WriteOwner      Access = 0x00080000
	Synchronize     Access = 0x00100000
	// AccessSystemSecurity is never granted.
	AccessSystemSecurity Access = 0x01000000
	// MaximumAllowed asks for all access that the server can have.
	MaximumAllowed Access = 0x02000000
	GenericAll     Access = 0x10000000
	GenericExecute Access = 0x20000000
	GenericWrite   Access = 0x40000000
	GenericRead    Access = 0x80000000

	ListDirectory = ReadData
)

// The meaning of the generic rights, and rights that are checked together.
//
// Source: [MS-SMB2 2.2.13.1.1] [MS-SMB2 2.2.13.1.2]
const (
	fileGenericRead    = ReadData | ReadAttributes | ReadEA | ReadControl | Synchronize
	fileGenericWrite   = WriteData | AppendData | WriteAttributes | WriteEA | ReadControl | Synchronize
	fileGenericExecute = Execute | ReadAttributes | ReadControl | Synchronize
	fileAllAccess      = Access(0x001F01FF)

	dataRead     = ReadData | Execute
	dataWrite    = WriteData | AppendData
	anyWrite     = dataWrite | WriteEA | WriteAttributes | Delete | DeleteChild | WriteDAC | WriteOwner
	undefinedBit = ^(fileAllAccess | AccessSystemSecurity | MaximumAllowed | GenericAll | GenericExecute | GenericWrite | GenericRead)
)

// Has reports whether all of want is in a.
func (a Access) Has(want Access) bool { return a&want == want }

// specific replaces the generic rights by their meaning.
func (a Access) specific() Access {
	for _, g := range [...]struct{ generic, means Access }{
		{GenericAll, fileAllAccess},
		{GenericExecute, fileGenericExecute},
		{GenericWrite, fileGenericWrite},
		{GenericRead, fileGenericRead},
	} {
		if a&g.generic != 0 {
			a = a&^g.generic | g.means
		}
	}
	return a
}

// ShareMode is the access that other opens of the file may have during an open.
//
// Source: [MS-SMB2 2.2.13]
type ShareMode uint32

// The share modes. None of them makes an open exclusive.
const (
	ShareRead   ShareMode = 1
	ShareWrite  ShareMode = 2
	ShareDelete ShareMode = 4
	ShareAll              = ShareRead | ShareWrite | ShareDelete
)

// Disposition is the action for a file that exists, and for one that does not.
//
// Source: [MS-SMB2 2.2.13]
type Disposition uint32

// The dispositions: (exists / does not exist).
const (
	Supersede    Disposition = 0 // replace / create
	OpenExisting Disposition = 1 // open / fail
	Create       Disposition = 2 // fail / create
	OpenIf       Disposition = 3 // open / create
	Overwrite    Disposition = 4 // empty / fail
	OverwriteIf  Disposition = 5 // empty / create
)

// empties reports whether d empties a file that exists.
func (d Disposition) empties() bool { return d == Supersede || d == Overwrite || d == OverwriteIf }

// Options are NT create options. Options without a name here have no effect.
//
// Source: [MS-SMB2 2.2.13] [OP-51]
type Options uint32

// The options that have an effect.
const (
	DirectoryFile           Options = 0x00000001
	WriteThrough            Options = 0x00000002
	SequentialOnly          Options = 0x00000004
	NoIntermediateBuffering Options = 0x00000008
	NonDirectoryFile        Options = 0x00000040
	DeleteOnClose           Options = 0x00001000
	OpenByFileID            Options = 0x00002000
)

// Action is the effect of an open.
//
// Source: [MS-SMB2 2.2.14]
type Action uint32

// The actions.
const (
	Superseded  Action = 0
	Opened      Action = 1
	Created     Action = 2
	Overwritten Action = 3
)

// File attributes. AttrReadOnly means that the file has no write permission. Hidden, System and
// Archive are accepted and not kept.
//
// Source: [MS-FSCC 2.6]
const (
	AttrReadOnly  uint32 = 0x00000001
	AttrHidden    uint32 = 0x00000002
	AttrSystem    uint32 = 0x00000004
	AttrDirectory uint32 = 0x00000010
	AttrArchive   uint32 = 0x00000020
	AttrNormal    uint32 = 0x00000080
	AttrTemporary uint32 = 0x00000100

	attrKnown uint32 = 0x0000FFFF
)
