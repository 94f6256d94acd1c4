package smbserver

import (
	"encoding/binary"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// sectorSize is the unit of which allocation units are said to consist, in
// bytes.
const sectorSize = 512

// maxNameUnits is how long one name may be, in UTF-16 units, on most file
// systems.
const maxNameUnits = 255

// queryVolume tells about the file system below a share.
//
// Source: [MS-SMB2 3.3.5.20.2], [MS-FSCC 2.5]
func queryVolume(f *vfs.Open, class smbwire.FSClass) (answer, ntstatus.Status) {
	v, err := f.VolumeInfo()
	if err != nil {
		return answer{}, statusOf(err)
	}
	unit := uint64(v.BlockSize)
	if unit == 0 || unit%sectorSize != 0 {
		unit = 4096
	}
	switch class {
	case smbwire.ClassFSVolume:
		label, err := smbwire.UTF16(f.Share().Name)
		if err != nil {
			return answer{}, statusOf(err)
		}
		i := smbwire.FSVolumeInfo{
			CreationTime: smbwire.FiletimeOf(v.Created), SerialNumber: uint32(v.Serial ^ v.Serial>>32), Label: label,
		}
		return answer{i.AppendTo(nil), 18}, ntstatus.Success
	case smbwire.ClassFSSize:
		i := smbwire.FSSizeInfo{
			TotalUnits: v.Total / unit, AvailableUnits: v.Available / unit,
			SectorsPerUnit: uint32(unit / sectorSize), BytesPerSector: sectorSize,
		}
		return fixed(i.AppendTo(nil))
	case smbwire.ClassFSFullSize:
		i := smbwire.FSFullSizeInfo{
			TotalUnits: v.Total / unit, CallerAvailableUnits: v.Available / unit, ActualAvailableUnits: v.Free / unit,
			SectorsPerUnit: uint32(unit / sectorSize), BytesPerSector: sectorSize,
		}
		return fixed(i.AppendTo(nil))
	case smbwire.ClassFSDevice:
		i := smbwire.FSDeviceInfo{DeviceType: smbwire.DeviceTypeDisk, Characteristics: smbwire.DeviceIsMounted}
		if v.ReadOnly {
			i.Characteristics |= smbwire.DeviceReadOnly
		}
		return fixed(i.AppendTo(nil))
	case smbwire.ClassFSAttribute:
		return volumeAttributes(&v)
	case smbwire.ClassFSObjectID:
		var i smbwire.FSObjectIDInfo
		binary.LittleEndian.PutUint64(i.ObjectID[:], v.Serial)
		return fixed(i.AppendTo(nil))
	case smbwire.ClassFSSectorSize:
		i := smbwire.FSSectorSizeInfo{
			Logical: sectorSize, PhysicalForAtomicity: sectorSize, PhysicalForPerformance: uint32(unit),
			EffectivePhysicalForAtomicity: sectorSize, Flags: sectorAligned,
		}
		return fixed(i.AppendTo(nil))
	}
	return answer{}, ntstatus.InvalidInfoClass
}

// sectorAligned says that device and partition begin at sector boundaries.
//
// Source: [MS-FSCC 2.5.7]
const sectorAligned = 0x3

func volumeAttributes(v *vfs.VolumeInfo) (answer, ntstatus.Status) {
	name, err := smbwire.UTF16(v.FileSystem)
	if err != nil {
		return answer{}, statusOf(err)
	}
	i := smbwire.FSAttributeInfo{
		Attributes:    smbwire.FSCaseSensitiveSearch | smbwire.FSCasePreservedNames | smbwire.FSUnicodeOnDisk,
		MaxNameLength: maxNameUnits, Name: name,
	}
	if v.MaxName != 0 {
		i.MaxNameLength = min(v.MaxName, maxNameUnits)
	}
	if v.ReadOnly {
		i.Attributes |= smbwire.FSReadOnlyVolume
	}
	return answer{i.AppendTo(nil), 12}, ntstatus.Success
}
