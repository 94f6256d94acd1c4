package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/integration/samba"
	smb "lwio/internal/smb/smbclient"
	"lwio/internal/smb/smbwire"
	"lwio/internal/test/skip"
)

// TestClientWithSamba runs our SMB client against Samba's smbd, in every dialect, with
// signatures required by both.
//
// Source: [MS-SMB2 3.2]
func TestClientWithSamba(t *testing.T) {
	server, dir := startSamba(t)
	for _, dialect := range []uint16{smbwire.Dialect210, smbwire.Dialect300, smbwire.Dialect302, smbwire.Dialect311} {
		t.Run(fmt.Sprintf("%#04x", dialect), func(t *testing.T) {
			s := sambaSession(t, server, smb.Config{Dialects: []uint16{dialect}})
			tree, err := s.TreeConnect(t.Context(), samba.Share)
			if err != nil {
				t.Fatal(err)
			}
			sambaData(t, tree, dir)
			sambaSmall(t, tree, dir)
			sambaNames(t, tree, dir)
		})
	}
	nc := sambaDial(t, server)
	_, err := smb.New(t.Context(), nc, server.Host, smb.Config{User: samba.User, Password: "wrong"})
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("with a wrong password: %v", err)
	}
}

// startSamba runs smbd on a new directory, with further lines of its configuration.
func startSamba(t *testing.T, global ...string) (server *samba.Server, dir string) {
	t.Helper()
	need(t, "smbd")
	if os.Getuid() != 0 {
		skip.Test(t, "smbd needs root")
	}
	dir = t.TempDir()
	server, err := samba.Start(dir, global...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server, dir
}

func sambaDial(t *testing.T, server *samba.Server) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", net.JoinHostPort(server.Host, server.Port))
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// sambaSession opens a session in the only dialect of cfg.
func sambaSession(t *testing.T, server *samba.Server, cfg smb.Config) *smb.Session {
	t.Helper()
	cfg.User, cfg.Password = samba.User, samba.Password
	s, err := smb.New(t.Context(), sambaDial(t, server), server.Host, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.Dialect() != cfg.Dialects[0] {
		t.Errorf("dialect %#x, want %#x", s.Dialect(), cfg.Dialects[0])
	}
	return s
}

// everything is the access mask for all operations on a file.
const everything = 0x0013019F

// sambaData writes and reads more data than one request can carry.
func sambaData(t *testing.T, tree *smb.Tree, dir string) {
	ctx := t.Context()
	f, err := tree.Create(ctx, smb.CreateRequest{Name: "data ä.bin", Access: everything, Share: 7, Disposition: 5, ResumeKey: true})
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 20<<20+12345)
	rand.NewChaCha8([32]byte{2}).Read(data)
	if n, err := f.WriteAt(ctx, data, 7); n != len(data) || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	got := make([]byte, len(data)+100)
	if n, err := f.ReadAt(ctx, got, 7); n != len(data) || !errors.Is(err, io.EOF) || !bytes.Equal(got[:n], data) {
		t.Errorf("read %d, %v", n, err)
	}
	if err := f.Flush(ctx); err != nil {
		t.Error(err)
	}
	if disk, err := os.ReadFile(filepath.Join(dir, "data ä.bin")); err != nil || !bytes.Equal(disk[7:], data) {
		t.Errorf("on disk there is something else: %v", err)
	}
	raw, err := f.ResumeKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := smbwire.DecodeResumeKey(raw); err != nil || len(k.Context) != 0 {
		t.Errorf("resume key %x, %v: Samba has no LWIO to offer", raw, err)
	}
	if err := errors.Join(f.SetSize(ctx, 5), f.SetDelete(ctx, true)); err != nil {
		t.Error(err)
	}
	if i, err := f.Stat(ctx); err != nil || i.Size != 5 || !i.DeletePending {
		t.Errorf("%+v, %v", i, err)
	}
	if err := f.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := tree.Stat(ctx, "data ä.bin"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// sambaSmall writes, renames and reads small files in few messages.
func sambaSmall(t *testing.T, tree *smb.Tree, dir string) {
	ctx := t.Context()
	for _, content := range []string{"", "content", strings.Repeat("x", tree.MaxSmall())} {
		q := smb.CreateRequest{Name: "part", Access: everything, Share: 7, Disposition: 2, DeletePending: true, Data: []byte(content)}
		f, err := tree.Create(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Keep(ctx, "small"), f.Close(ctx)); err != nil {
			t.Error(err)
		}
		if disk, err := os.ReadFile(filepath.Join(dir, "small")); err != nil || string(disk) != content {
			t.Errorf("%d bytes are on the disk, %v", len(disk), err)
		}
		p := make([]byte, tree.MaxSmall())
		if n, info, err := tree.ReadHead(ctx, "small", p); err != nil || string(p[:n]) != content || info.Size != int64(n) {
			t.Errorf("%d bytes are read, %+v, %v", n, info, err)
		}
	}
	if _, _, err := tree.ReadHead(ctx, "none", make([]byte, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	q := smb.CreateRequest{Name: "part", Access: everything, Share: 7, Disposition: 2, DeletePending: true, Data: []byte("lost")}
	f, err := tree.Create(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(ctx), tree.Remove(ctx, "small")); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// sambaNames makes, lists, moves and removes.
func sambaNames(t *testing.T, tree *smb.Tree, dir string) {
	ctx := t.Context()
	if err := tree.Mkdir(ctx, "dir"); err != nil {
		t.Fatal(err)
	}
	f, err := tree.Create(ctx, smb.CreateRequest{Name: "dir/a", Access: everything, Share: 7, Disposition: 2})
	if err != nil {
		t.Fatal(err)
	}
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := errors.Join(f.Keep(ctx, "dir/b"), f.Close(ctx), os.Chtimes(filepath.Join(dir, "dir", "b"), time.Time{}, when)); err != nil {
		t.Error(err)
	}
	d, err := tree.Create(ctx, smb.CreateRequest{Name: "dir", Access: 0x00120089, Share: 7, Disposition: 1, Options: 1})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for e, err := range d.ReadDir(ctx, "") {
		if err != nil || !e.Modified.Equal(when) {
			t.Errorf("%+v, %v", e, err)
		}
		names = append(names, e.Name)
	}
	if len(names) != 1 || names[0] != "b" {
		t.Error(names)
	}
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
	list, small, err := tree.ListSmall(ctx, "dir")
	if err != nil || !small {
		t.Fatalf("small %v, %v", small, err)
	}
	names = nil
	for e, err := range list {
		if err != nil || !e.Modified.Equal(when) {
			t.Errorf("%+v, %v", e, err)
		}
		names = append(names, e.Name)
	}
	if len(names) != 1 || names[0] != "b" {
		t.Error(names)
	}
	if can, err := tree.WritesWhole(ctx); can || err != nil {
		t.Errorf("Samba writes whole files: %v, %v", can, err)
	}
	if err := tree.Remove(ctx, "dir"); err == nil {
		t.Error("a directory with a file in it was removed")
	}
	if err := errors.Join(tree.Rename(ctx, "dir/b", "c", false), tree.Remove(ctx, "c"), tree.Remove(ctx, "dir")); err != nil {
		t.Error(err)
	}
	if _, err := tree.Stat(ctx, "no/such"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
