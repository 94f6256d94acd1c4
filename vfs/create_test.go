package vfs_test

import (
	"fmt"
	"os"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// Every disposition is applied to a file, a directory and a missing name.
//
// Source: [MS-FSA 2.1.5.1] [MS-SMB2 2.2.13]
func TestDispositionsOfFileDirectoryAndNothing(t *testing.T) {
	const (
		missing = ntstatus.ObjectNameNotFound
		taken   = ntstatus.ObjectNameCollision
		isDir   = ntstatus.FileIsADirectory
		ok      = ntstatus.Success
	)
	for _, c := range []struct {
		d                     vfs.Disposition
		file, dir, none       ntstatus.Status
		fileAction, dirAction vfs.Action
	}{
		{vfs.Supersede, ok, isDir, ok, vfs.Superseded, 0},
		{vfs.OpenExisting, ok, ok, missing, vfs.Opened, vfs.Opened},
		{vfs.Create, taken, taken, ok, 0, 0},
		{vfs.OpenIf, ok, ok, ok, vfs.Opened, vfs.Opened},
		{vfs.Overwrite, ok, isDir, missing, vfs.Overwritten, 0},
		{vfs.OverwriteIf, ok, isDir, ok, vfs.Overwritten, 0},
	} {
		t.Run(fmt.Sprint(c.d), func(t *testing.T) {
			s := newSite(t)
			s.put("file", "dir/")
			for _, k := range []struct {
				path   string
				status ntstatus.Status
				action vfs.Action
			}{
				{"file", c.file, c.fileAction},
				{"dir", c.dir, c.dirAction},
				{"none", c.none, vfs.Created},
			} {
				o, action, err := s.Open(vfs.OpenRequest{Share: "data", Path: k.path, Access: vfs.GenericRead, Disposition: c.d})
				wantStatus(t, k.path, err, k.status)
				if err != nil {
					continue
				}
				if action != k.action {
					t.Errorf("%s: action %d, want %d", k.path, action, k.action)
				}
				info, err := o.Stat()
				if err != nil {
					t.Fatal(err)
				}
				emptied := action != vfs.Opened
				if (info.Size == 0) != (emptied || k.path == "dir") {
					t.Errorf("%s: %d bytes after action %d", k.path, info.Size, action)
				}
				closed(t, o)
			}
		})
	}
}

// Source: [MS-FSA 2.1.5.1] [MS-SMB2 3.3.5.9]
func TestInvalidOpenIsRefused(t *testing.T) {
	s := newSite(t)
	s.put("file", "dir/", "dir/sub/", "dir/sub/x")
	if err := os.Chmod(s.host("dir/sub/x"), 0o444); err != nil {
		t.Fatal(err)
	}
	type change = func(*vfs.OpenRequest)
	for _, c := range []struct {
		name   string
		path   string
		change []change
		want   ntstatus.Status
	}{
		{"no access", "file", []change{access(0)}, ntstatus.AccessDenied},
		{"access that does not exist", "file", []change{access(vfs.ReadData | 0x00000200)}, ntstatus.AccessDenied},
		{"system security", "file", []change{access(vfs.AccessSystemSecurity)}, ntstatus.PrivilegeNotHeld},
		{"disposition", "file", []change{disposition(6)}, ntstatus.InvalidParameter},
		{"share mode", "file", []change{sharing(8)}, ntstatus.InvalidParameter},
		{"attributes", "new", []change{disposition(vfs.Create), attributes(1 << 20)}, ntstatus.InvalidParameter},
		{"both kinds", "file", []change{options(vfs.DirectoryFile | vfs.NonDirectoryFile)}, ntstatus.InvalidParameter},
		{"overwrite a directory", "dir", []change{options(vfs.DirectoryFile), disposition(vfs.OverwriteIf)}, ntstatus.InvalidParameter},
		{"temporary directory", "new", []change{options(vfs.DirectoryFile), disposition(vfs.Create), attributes(vfs.AttrTemporary)}, ntstatus.InvalidParameter},
		{"by id", "file", []change{options(vfs.OpenByFileID)}, ntstatus.NotSupported},
		{"owner that has no identity", "file", []change{owner([]int{1})}, ntstatus.InvalidParameter},
		{"file as directory", "file", []change{options(vfs.DirectoryFile)}, ntstatus.NotADirectory},
		{"file with a slash", "file/", nil, ntstatus.NotADirectory},
		{"not-a-directory with a slash", "dir/", []change{options(vfs.NonDirectoryFile)}, ntstatus.ObjectNameInvalid},
		{"directory as file", "dir", []change{options(vfs.NonDirectoryFile)}, ntstatus.FileIsADirectory},
		{"name not there", "dir/no", nil, ntstatus.ObjectNameNotFound},
		{"path not there", "no/file", nil, ntstatus.ObjectPathNotFound},
		{"path not there, deep", "dir/no/no/file", nil, ntstatus.ObjectPathNotFound},
		{"path not there, create", "no/file", []change{disposition(vfs.Create)}, ntstatus.ObjectPathNotFound},
		{"path not there, mkdir", "no/dir", []change{disposition(vfs.Create), options(vfs.DirectoryFile)}, ntstatus.ObjectPathNotFound},
		{"path through a file", "file/x", nil, ntstatus.ObjectPathNotFound},
		{"path through a file, create", "file/x", []change{disposition(vfs.OpenIf)}, ntstatus.ObjectPathNotFound},
		{"name longer than the disk takes", string(make255('n')) + "n", nil, ntstatus.ObjectNameInvalid},
		{"read-only file, write", "dir/sub/x", []change{access(vfs.WriteData)}, ntstatus.AccessDenied},
		{"read-only file, append", "dir/sub/x", []change{access(vfs.AppendData)}, ntstatus.AccessDenied},
		{"read-only file, all", "dir/sub/x", []change{access(vfs.GenericAll)}, ntstatus.AccessDenied},
		{"read-only file, overwrite", "dir/sub/x", []change{access(vfs.ReadData), disposition(vfs.OverwriteIf)}, ntstatus.AccessDenied},
		{"read-only file, delete on close", "dir/sub/x", []change{access(vfs.Delete), options(vfs.DeleteOnClose)}, ntstatus.CannotDelete},
		{"delete on close without delete", "file", []change{access(vfs.ReadData), options(vfs.DeleteOnClose)}, ntstatus.InvalidParameter},
		{"delete on close of a directory with entries", "dir", []change{access(vfs.Delete), options(vfs.DeleteOnClose)}, ntstatus.DirectoryNotEmpty},
		{"delete on close of the root", "", []change{access(vfs.Delete), options(vfs.DeleteOnClose)}, ntstatus.CannotDelete},
		{"create read-only with delete on close", "new", []change{disposition(vfs.Create), attributes(vfs.AttrReadOnly), options(vfs.DeleteOnClose)}, ntstatus.CannotDelete},
	} {
		o, err := s.open(c.path, c.change...)
		wantStatus(t, c.name, err, c.want)
		if err == nil {
			closed(t, o)
		}
	}
	if n := s.Stats().Opens; n != 0 {
		t.Errorf("%d opens counted after refusals only", n)
	}
	if s.exists("new") {
		t.Error("a refused create left a file")
	}
}

func make255(c byte) []byte {
	b := make([]byte, 255)
	for i := range b {
		b[i] = c
	}
	return b
}

// Source: [MS-SMB2 2.2.13.1] [OP-57]
func TestOpenGrantsRequestedAccess(t *testing.T) {
	s := newSite(t)
	s.put("file", "locked", "dir/")
	if err := os.Chmod(s.host("locked"), 0o444); err != nil {
		t.Fatal(err)
	}
	const readSide = vfs.ReadData | vfs.Execute | vfs.ReadEA | vfs.ReadAttributes | vfs.ReadControl | vfs.Synchronize
	const writeSide = vfs.WriteAttributes | vfs.WriteEA | vfs.Delete | vfs.WriteDAC | vfs.WriteOwner
	const bytes = vfs.WriteData | vfs.AppendData
	for _, c := range []struct {
		name, share, path string
		ask, want         vfs.Access
	}{
		{"as asked", "data", "file", vfs.ReadData, vfs.ReadData},
		{"generic read", "data", "file", vfs.GenericRead, 0x00120089},
		{"generic write", "data", "file", vfs.GenericWrite, 0x00120116},
		{"generic execute", "data", "file", vfs.GenericExecute, 0x001200A0},
		{"generic all", "data", "file", vfs.GenericAll, 0x001F01FF},
		{"maximum", "data", "file", vfs.MaximumAllowed, readSide | writeSide | bytes},
		{"maximum and more", "data", "file", vfs.MaximumAllowed | vfs.DeleteChild, readSide | writeSide | bytes | vfs.DeleteChild},
		{"maximum of a read-only file", "data", "locked", vfs.MaximumAllowed, readSide | writeSide},
		{"maximum of a directory", "data", "dir", vfs.MaximumAllowed, readSide | writeSide | bytes | vfs.DeleteChild},
		{"maximum of the root", "data", "", vfs.MaximumAllowed, readSide | writeSide | bytes | vfs.DeleteChild},
		{"maximum on a read-only share", "frozen", "file", vfs.MaximumAllowed, readSide},
		{"maximum of a directory on a read-only share", "frozen", "dir", vfs.MaximumAllowed, readSide},
	} {
		o, err := s.open(c.path, inShare(c.share), access(c.ask))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if o.Granted() != c.want {
			t.Errorf("%s: %08x, want %08x", c.name, uint32(o.Granted()), uint32(c.want))
		}
		if c.ask == vfs.MaximumAllowed && o.MaximalAccess() != c.want {
			t.Errorf("%s: maximal access %08x, want %08x", c.name, uint32(o.MaximalAccess()), uint32(c.want))
		}
		closed(t, o)
	}
}

// Source: [MS-FSA 2.1.5.1]
func TestReadOnlyShareRefusesChanges(t *testing.T) {
	s := newSite(t)
	s.put("file", "dir/")
	for _, a := range []vfs.Access{
		vfs.WriteData, vfs.AppendData, vfs.WriteEA, vfs.WriteAttributes, vfs.Delete, vfs.DeleteChild,
		vfs.WriteDAC, vfs.WriteOwner, vfs.GenericWrite, vfs.GenericAll,
	} {
		_, err := s.open("file", inShare("frozen"), access(vfs.ReadData|a))
		wantStatus(t, fmt.Sprintf("access %08x", uint32(a)), err, ntstatus.AccessDenied)
	}
	for _, d := range []vfs.Disposition{vfs.Supersede, vfs.Create, vfs.OpenIf, vfs.Overwrite, vfs.OverwriteIf} {
		for _, opt := range []vfs.Options{0, vfs.DirectoryFile} {
			if opt != 0 && d != vfs.Create && d != vfs.OpenIf {
				continue
			}
			_, err := s.open("new", inShare("frozen"), access(vfs.ReadData), disposition(d), options(opt))
			wantStatus(t, fmt.Sprintf("disposition %d, options %x", d, opt), err, ntstatus.AccessDenied)
		}
	}
	_, err := s.open("file", inShare("frozen"), access(vfs.ReadData), disposition(vfs.OverwriteIf))
	wantStatus(t, "overwrite", err, ntstatus.AccessDenied)
	_, err = s.open("file", inShare("frozen"), access(vfs.MaximumAllowed), options(vfs.DeleteOnClose))
	wantStatus(t, "delete on close", err, ntstatus.AccessDenied)
	o := s.mustOpen("file", inShare("frozen"), access(vfs.GenericRead), disposition(vfs.OpenIf))
	wantStatus(t, "rename", o.Rename("other", false), ntstatus.AccessDenied)
	wantStatus(t, "delete", o.SetDeleteOnClose(true), ntstatus.AccessDenied)
	wantStatus(t, "truncate", o.Truncate(0), ntstatus.AccessDenied)
	wantStatus(t, "attributes", o.SetAttributes(vfs.AttrReadOnly), ntstatus.AccessDenied)
	if v, err := o.VolumeInfo(); err == nil && !v.ReadOnly {
		t.Error("volume of a read-only share is writable")
	}
	closed(t, o)
	if s.exists("new") || !s.exists("file") {
		t.Error("the read-only share changed")
	}
}

// Source: [MS-FSCC 2.6]
func TestCreatedReadOnlyFileIsWritableOnce(t *testing.T) {
	s := newSite(t)
	o := s.mustOpen("new", disposition(vfs.Create), attributes(vfs.AttrReadOnly))
	held(t, o, func() {
		if _, err := o.WriteAt([]byte("by the creator"), 0); err != nil {
			t.Error(err)
		}
	})
	info, err := o.Stat()
	if err != nil || info.Attributes != vfs.AttrReadOnly {
		t.Errorf("attributes %x, %v", info.Attributes, err)
	}
	closed(t, o)
	_, err = s.open("new", access(vfs.WriteData))
	wantStatus(t, "write a read-only file", err, ntstatus.AccessDenied)
}

func TestMaxOpensIsEnforced(t *testing.T) {
	s := newSite(t, func(c *vfs.Config) { c.MaxOpens = 2 })
	s.put("a")
	a, b := s.mustOpen("a"), s.mustOpen("a")
	_, err := s.open("a")
	wantStatus(t, "third of two", err, ntstatus.TooManyOpenedFiles)
	closed(t, a)
	closed(t, b, s.mustOpen("a"))
}

// A user cannot take the opens of other users; a failed open takes none.
func TestMaxUserOpensIsEnforced(t *testing.T) {
	s := newSite(t, func(c *vfs.Config) { c.MaxOpens = 8 })
	s.put("a")
	user := func(name string) func(*vfs.OpenRequest) { return func(r *vfs.OpenRequest) { r.User = name } }
	var alices []*vfs.Open
	for range 6 {
		alices = append(alices, s.mustOpen("a", user("alice")))
	}
	_, err := s.open("a", user("alice"))
	wantStatus(t, "the seventh of one user", err, ntstatus.TooManyOpenedFiles)
	for range 20 {
		_, err := s.open("nowhere", user("bob"), disposition(vfs.OpenExisting))
		wantStatus(t, "missing file", err, ntstatus.ObjectNameNotFound)
	}
	bob, nobody := s.mustOpen("a", user("bob")), s.mustOpen("a")
	_, err = s.open("a", user("bob"))
	wantStatus(t, "the ninth of all", err, ntstatus.TooManyOpenedFiles)
	closed(t, bob, nobody, alices[0])
	closed(t, s.mustOpen("a", user("alice")))
	closed(t, alices[1:]...)
	if st := s.Stats(); st.Opens != 0 || st.MaxOpens != 8 {
		t.Errorf("%d opens of %d", st.Opens, st.MaxOpens)
	}
}

// A disposition that empties the file needs shared write access.
//
// Source: [MS-FSA 2.1.5.1.2]
func TestEmptyingNeedsSharedWrite(t *testing.T) {
	s := newSite(t)
	s.put("file")
	reader := s.mustOpen("file", access(vfs.ReadData), sharing(vfs.ShareRead))
	for _, d := range []vfs.Disposition{vfs.Supersede, vfs.Overwrite, vfs.OverwriteIf} {
		_, err := s.open("file", access(vfs.ReadData), disposition(d))
		wantStatus(t, "empty a file not shared for writing", err, ntstatus.SharingViolation)
	}
	if info, err := reader.Stat(); err != nil || info.Size == 0 {
		t.Errorf("%d bytes, %v", info.Size, err)
	}
	closed(t, reader)
	closed(t, s.mustOpen("file", access(vfs.ReadData), disposition(vfs.Overwrite)))
}
