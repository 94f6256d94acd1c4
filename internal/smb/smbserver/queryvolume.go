package smbserver

import (
	"encoding/binary"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// sectorSize is the reported sector size, in bytes; allocation units consist of sectors.
const sectorSize = 512

// maxNameUnits is the length of the longest name on most file systems, in UTF-16 units.
const maxNameUnits = 255

// queryVolume returns the information of a class about the file system of a share.
//
// Source: [MS-SMB2 3.3.5.20.2], [MS-FSCC 2.5]
func queryVolume(f *vfs.Open, class smbwire.FSClass) (information, ntstatus.Status) {
	v, err := f.VolumeInfo()
	if err != nil {
		return information{}, statusOf(err)
	}
	unit := uint64(v.BlockSize)
	if unit == 0 || unit%sectorSize != 0 {
		unit = 4096
	}
	switch class {
	case smbwire.ClassFSVolume:
		label, err := smbwire.UTF16(f.Share().Name)
		if err != nil {
			return information{}, statusOf(err)
		}
		i := smbwire.FSVolumeInfo{
			CreationTime: smbwire.FiletimeOf(v.Created), SerialNumber: uint32(v.Serial ^ v.Serial>>32), Label: label,
		}
		return information{i.AppendTo(nil), 24}, ntstatus.Success
	case smbwire.ClassFSSize:
		i := smbwire.FSSizeInfo{
			TotalUnits: v.Total / unit, AvailableUnits: v.Available / unit,
			SectorsPerUnit: uint32(unit / sectorSize), BytesPerSector: sectorSize,
		}
		return whole(i.AppendTo(nil))
	case smbwire.ClassFSFullSize:
		i := smbwire.FSFullSizeInfo{
			TotalUnits: v.Total / unit, CallerAvailableUnits: v.Available / unit, ActualAvailableUnits: v.Free / unit,
			SectorsPerUnit: uint32(unit / sectorSize), BytesPerSector: sectorSize,
		}
		return whole(i.AppendTo(nil))
	case smbwire.ClassFSDevice:
		i := smbwire.FSDeviceInfo{DeviceType: smbwire.DeviceTypeDisk, Characteristics: smbwire.DeviceIsMounted}
		if v.ReadOnly {
			i.Characteristics |= smbwire.DeviceReadOnly
		}
		return whole(i.AppendTo(nil))
	case smbwire.ClassFSAttribute:
		return volumeAttributes(&v)
	case smbwire.ClassFSControl:
		i := smbwire.FSControlInfo{DefaultQuotaThreshold: smbwire.NoQuota, DefaultLimit: smbwire.NoQuota}
		return whole(i.AppendTo(nil))
	case smbwire.ClassFSObjectID:
		var i smbwire.FSObjectIDInfo
		binary.LittleEndian.PutUint64(i.ObjectID[:], v.Serial)
		return whole(i.AppendTo(nil))
	case smbwire.ClassFSSectorSize:
		i := smbwire.FSSectorSizeInfo{
			Logical: sectorSize, PhysicalForAtomicity: sectorSize, PhysicalForPerformance: uint32(unit),
			EffectivePhysicalForAtomicity: sectorSize, Flags: sectorAligned,
		}
		return whole(i.AppendTo(nil))
	}
	return information{}, ntstatus.InvalidInfoClass
}

// sectorAligned are the flags of a device and a partition that begin at sector boundaries.
//
// Source: [MS-FSCC 2.5.7]
const sectorAligned = 0x3

// volumeAttributes returns the capabilities and the name of a file system.
func volumeAttributes(v *vfs.VolumeInfo) (information, ntstatus.Status) {
	name, err := smbwire.UTF16(v.FileSystem)
	if err != nil {
		return information{}, statusOf(err)
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
	return information{i.AppendTo(nil), 16}, ntstatus.Success
}
