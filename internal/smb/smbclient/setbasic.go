package smbclient

import (
	"context"
	"time"

	"lwio/internal/smb/smbwire"
)

// Basic are times and attributes to set. A zero time and zero attributes change nothing.
type Basic struct {
	Accessed, Modified time.Time
	// Attributes are the bits of [MS-FSCC 2.6]; AttributeNormal stands for none.
	Attributes uint32
}

// SetBasic sets times and attributes of a file or directory, in one round trip. It may be done twice.
// Times have units of 100 ns; a finer part is cut off.
//
// Errors: as Create.
//
// Source: [MS-SMB2 3.2.4.10], [MS-FSCC 2.4.7]
func (t *Tree) SetBasic(ctx context.Context, name string, b Basic) error {
	_, err := t.openAndClose(ctx, &CreateRequest{
		Name: name, Access: accessWriteAttributes | accessReadAttributes | accessSynchronize, Share: shareAll, Disposition: dispositionOpen,
	}, b.change())
	return timely(err)
}

// change is the change that sets b.
func (b *Basic) change() setInfo {
	info := smbwire.BasicInfo{
		FileTimes:      smbwire.FileTimes{LastAccessTime: smbwire.FiletimeOf(b.Accessed), LastWriteTime: smbwire.FiletimeOf(b.Modified)},
		FileAttributes: b.Attributes,
	}
	return setInfo{smbwire.ClassBasic, info.AppendTo(nil)}
}
