package smbwire

// FSClass numbers the kinds of information on a file system.
//
// Source: [MS-FSCC 2.5]
type FSClass uint8

// The file system information classes.
const (
	ClassFSVolume     FSClass = 1
	ClassFSSize       FSClass = 3
	ClassFSDevice     FSClass = 4
	ClassFSAttribute  FSClass = 5
	ClassFSControl    FSClass = 6
	ClassFSFullSize   FSClass = 7
	ClassFSObjectID   FSClass = 8
	ClassFSSectorSize FSClass = 11
)

// Attributes of a file system, and the kind of its device.
//
// Source: [MS-FSCC 2.5.1], [MS-FSCC 2.5.10]
const (
	FSCaseSensitiveSearch uint32 = 0x00000001
	FSCasePreservedNames  uint32 = 0x00000002
	FSUnicodeOnDisk       uint32 = 0x00000004
	FSReadOnlyVolume      uint32 = 0x00080000

	DeviceTypeDisk  uint32 = 0x00000007
	DeviceIsMounted uint32 = 0x00000020
	DeviceReadOnly  uint32 = 0x00000002
)

const (
	fsVolumeFixed    = 18
	fsSizeSize       = 24
	fsDeviceSize     = 8
	fsAttributeFixed = 12
	fsControlSize    = 48
	fsFullSizeSize   = 32
	fsObjectIDSize   = 64
	fsSectorSizeSize = 28
)

// FSVolumeInfo is the form of ClassFSVolume.
//
// Source: [MS-FSCC 2.5.9]
type FSVolumeInfo struct {
	CreationTime    Filetime
	SerialNumber    uint32
	SupportsObjects bool
	// Label is UTF-16LE.
	Label []byte
}

// AppendTo appends the information.
func (i *FSVolumeInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint64(b, uint64(i.CreationTime))
	b = le.AppendUint32(b, i.SerialNumber)
	b = le.AppendUint32(b, uint32(len(i.Label)))
	b = appendBool(b, i.SupportsObjects)
	b = append(b, 0)
	return append(b, i.Label...)
}

// FSSizeInfo is the form of ClassFSSize, in allocation units.
//
// Source: [MS-FSCC 2.5.8]
type FSSizeInfo struct {
	TotalUnits, AvailableUnits     uint64
	SectorsPerUnit, BytesPerSector uint32
}

// AppendTo appends the information.
func (i *FSSizeInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint64(b, i.TotalUnits)
	b = le.AppendUint64(b, i.AvailableUnits)
	b = le.AppendUint32(b, i.SectorsPerUnit)
	return le.AppendUint32(b, i.BytesPerSector)
}

// FSFullSizeInfo is the form of ClassFSFullSize, in allocation units.
//
// Source: [MS-FSCC 2.5.4]
type FSFullSizeInfo struct {
	TotalUnits, CallerAvailableUnits, ActualAvailableUnits uint64
	SectorsPerUnit, BytesPerSector                         uint32
}

// AppendTo appends the information.
func (i *FSFullSizeInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint64(b, i.TotalUnits)
	b = le.AppendUint64(b, i.CallerAvailableUnits)
	b = le.AppendUint64(b, i.ActualAvailableUnits)
	b = le.AppendUint32(b, i.SectorsPerUnit)
	return le.AppendUint32(b, i.BytesPerSector)
}

// DecodeFSFullSizeInfo decodes the information, and ignores bytes behind it.
func DecodeFSFullSizeInfo(b []byte) (FSFullSizeInfo, error) {
	if err := checkSize("full size information", b, fsFullSizeSize); err != nil {
		return FSFullSizeInfo{}, err
	}
	return FSFullSizeInfo{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[24:]), le.Uint32(b[28:])}, nil
}

// FSDeviceInfo is the form of ClassFSDevice.
//
// Source: [MS-FSCC 2.5.10]
type FSDeviceInfo struct {
	DeviceType, Characteristics uint32
}

// AppendTo appends the information.
func (i *FSDeviceInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, i.DeviceType)
	return le.AppendUint32(b, i.Characteristics)
}

// FSAttributeInfo is the form of ClassFSAttribute.
//
// Source: [MS-FSCC 2.5.1]
type FSAttributeInfo struct {
	Attributes uint32
	// MaxNameLength bounds one element of a path, in UTF-16 units.
	MaxNameLength uint32
	// Name of the file system is UTF-16LE.
	Name []byte
}

// AppendTo appends the information.
func (i *FSAttributeInfo) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, i.Attributes)
	b = le.AppendUint32(b, i.MaxNameLength)
	b = le.AppendUint32(b, uint32(len(i.Name)))
	return append(b, i.Name...)
}

// FSControlInfo is the form of ClassFSControl. NoQuota as a limit is none.
//
// Source: [MS-FSCC 2.5.2]
type FSControlInfo struct {
	// FreeSpace are the thresholds of content indexing.
	FreeSpace                           [3]uint64
	DefaultQuotaThreshold, DefaultLimit uint64
	Flags                               uint32
}

// NoQuota is the limit of a volume without quotas.
const NoQuota = ^uint64(0)

// AppendTo appends the information.
func (i *FSControlInfo) AppendTo(b []byte) []byte {
	for _, v := range [...]uint64{i.FreeSpace[0], i.FreeSpace[1], i.FreeSpace[2], i.DefaultQuotaThreshold, i.DefaultLimit} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, i.Flags)
	return le.AppendUint32(b, 0)
}

// FSObjectIDInfo is the form of ClassFSObjectID.
//
// Source: [MS-FSCC 2.5.6]
type FSObjectIDInfo struct {
	ObjectID [16]byte
	Extended [48]byte
}

// AppendTo appends the information.
func (i *FSObjectIDInfo) AppendTo(b []byte) []byte {
	b = append(b, i.ObjectID[:]...)
	return append(b, i.Extended[:]...)
}

// FSSectorSizeInfo is the form of ClassFSSectorSize, in bytes.
//
// Source: [MS-FSCC 2.5.7]
type FSSectorSizeInfo struct {
	Logical, PhysicalForAtomicity, PhysicalForPerformance uint32
	EffectivePhysicalForAtomicity                         uint32
	Flags                                                 uint32
	SectorAlignment, PartitionAlignment                   uint32
}

// AppendTo appends the information.
func (i *FSSectorSizeInfo) AppendTo(b []byte) []byte {
	for _, v := range [...]uint32{
		i.Logical, i.PhysicalForAtomicity, i.PhysicalForPerformance, i.EffectivePhysicalForAtomicity,
		i.Flags, i.SectorAlignment, i.PartitionAlignment,
	} {
		b = le.AppendUint32(b, v)
	}
	return b
}
