package smbwire

// DirClass is the form of entries in QUERY_DIRECTORY.
//
// Source: [MS-FSCC 2.4]
type DirClass uint8

// The directory classes.
const (
	ClassDirectory       DirClass = 1
	ClassFullDirectory   DirClass = 2
	ClassBothDirectory   DirClass = 3
	ClassNames           DirClass = 12
	ClassIDBothDirectory DirClass = 37
	ClassIDFullDirectory DirClass = 38
	ClassIDExtdDirectory DirClass = 60
)

// dirLayout has the offsets of the parts of an entry; 0 for a part that the class lacks.
type dirLayout struct {
	nameLength, eaSize, shortName, fileID, name int // fileID has 16 bytes in ClassIDExtdDirectory
}

func (c DirClass) layout() (dirLayout, bool) {
	switch c {
	case ClassDirectory:
		return dirLayout{nameLength: 60, name: 64}, true
	case ClassFullDirectory:
		return dirLayout{nameLength: 60, eaSize: 64, name: 68}, true
	case ClassIDFullDirectory:
		return dirLayout{nameLength: 60, eaSize: 64, fileID: 72, name: 80}, true
	case ClassIDExtdDirectory:
		return dirLayout{nameLength: 60, eaSize: 64, fileID: 72, name: 88}, true
	case ClassBothDirectory:
		return dirLayout{nameLength: 60, eaSize: 64, shortName: 68, name: 94}, true
	case ClassIDBothDirectory:
		return dirLayout{nameLength: 60, eaSize: 64, shortName: 68, fileID: 96, name: 104}, true
	case ClassNames:
		return dirLayout{nameLength: 8, name: 12}, true
	}
	return dirLayout{}, false
}

// Known reports whether entries of the class can be encoded.
func (c DirClass) Known() bool {
	_, ok := c.layout()
	return ok
}

const maxShortName = 24

// DirEntry is one entry of a directory. Fields that a class does not carry are not sent, and
// decoded as zero.
//
// Source: [MS-FSCC 2.4.10], [MS-FSCC 2.4.14], [MS-FSCC 2.4.18], [MS-FSCC 2.4.19], [MS-FSCC 2.4.8], [MS-FSCC 2.4.28]
type DirEntry struct {
	FileIndex uint32
	FileTimes
	EndOfFile, AllocationSize uint64
	FileAttributes            uint32
	EASize                    uint32
	FileID                    uint64
	// Name and ShortName are UTF-16LE. ShortName has at most 24 bytes.
	Name, ShortName []byte
}

// DirEntrySize returns the length of an entry with a name of n bytes, without padding; 0 for
// an unknown class.
func DirEntrySize(c DirClass, n int) int {
	l, ok := c.layout()
	if !ok {
		return 0
	}
	return l.name + n
}

// AppendDirEntry appends an entry to a list that begins at start. last is the offset of the
// entry before, negative for the first; the second result is the offset of this entry.
// Precondition: the class is known.
func AppendDirEntry(b []byte, start, last int, c DirClass, e *DirEntry) (_ []byte, at int) {
	l, ok := c.layout()
	if !ok {
		return b, last
	}
	if last >= 0 {
		b = pad8(b, start)
		le.PutUint32(b[last:], uint32(len(b)-last))
	}
	at = len(b)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, e.FileIndex)
	if c != ClassNames {
		b = e.FileTimes.appendTo(b)
		b = le.AppendUint64(b, e.EndOfFile)
		b = le.AppendUint64(b, e.AllocationSize)
		b = le.AppendUint32(b, e.FileAttributes)
	}
	b = le.AppendUint32(b, uint32(len(e.Name)))
	b = appendZeros(b, at+l.name-len(b))
	one := b[at:]
	if l.eaSize != 0 {
		le.PutUint32(one[l.eaSize:], e.EASize)
	}
	if l.shortName != 0 {
		one[l.shortName] = byte(copy(one[l.shortName+2:l.shortName+2+maxShortName], e.ShortName))
	}
	if l.fileID != 0 {
		le.PutUint64(one[l.fileID:], e.FileID)
	}
	return append(b, e.Name...), at
}

// NextDirEntry decodes the first entry of a list; more is the bytes behind it, nil behind
// the last.
//
// Errors: ErrShort, ErrOffset, ErrValue for an unknown class.
func NextDirEntry(c DirClass, list []byte) (e DirEntry, more []byte, err error) {
	const name = "directory entry"
	l, ok := c.layout()
	if !ok {
		return e, nil, fault(name, "class", ErrValue)
	}
	if len(list) < l.name {
		return e, nil, fault(name, "", ErrShort)
	}
	b := list
	if next := le.Uint32(b); next != 0 {
		if next%8 != 0 || uint64(next) < uint64(l.name) || uint64(next) >= uint64(len(b)) {
			return e, nil, fault(name, "NextEntryOffset", ErrOffset)
		}
		b, more = b[:next], b[next:]
	}
	e.FileIndex = le.Uint32(b[4:])
	if c != ClassNames {
		e.FileTimes = fileTimes(b[8:])
		e.EndOfFile = le.Uint64(b[40:])
		e.AllocationSize = le.Uint64(b[48:])
		e.FileAttributes = le.Uint32(b[56:])
	}
	if l.eaSize != 0 {
		e.EASize = le.Uint32(b[l.eaSize:])
	}
	if l.shortName != 0 {
		n := b[l.shortName]
		if n > maxShortName {
			return e, nil, fault(name, "ShortNameLength", ErrValue)
		}
		e.ShortName, _ = rest(name, "ShortName", b, l.shortName+2, uint32(n))
	}
	if l.fileID != 0 {
		e.FileID = le.Uint64(b[l.fileID:])
	}
	e.Name, err = rest(name, "FileName", b, l.name, le.Uint32(b[l.nameLength:]))
	return e, more, err
}
