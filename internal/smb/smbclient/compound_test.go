package smbclient

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// served are the commands that a fake serves in its own way.
type served map[smbwire.Command]func(f *fake, h smbwire.Header)

// replies returns a change of a fake that serves commands with those responses.
func replies(by served) func(*fake) {
	return func(f *fake) {
		f.on = func(f *fake, h smbwire.Header, _ []byte) bool {
			do := by[h.Command]
			if do != nil {
				do(f, h)
			}
			return do != nil
		}
	}
}

// with returns a response.
func with(st ntstatus.Status, body appender) func(f *fake, h smbwire.Header) {
	return func(f *fake, h smbwire.Header) { f.reply(h, st, body) }
}

// refusal returns a response of a failure.
func refusal(st ntstatus.Status) func(f *fake, h smbwire.Header) {
	return with(st, &smbwire.ErrorResponse{})
}

// data returns a READ response.
func data(s string) *smbwire.ReadResponse { return &smbwire.ReadResponse{Data: []byte(s)} }

// ReadHead takes the data of a file from its three responses, and nothing else.
func TestReadHeadTakesDataOfResponses(t *testing.T) {
	for name, test := range map[string]struct {
		by   served
		want string
		err  error
	}{
		"whole":            {by: served{smbwire.CommandRead: with(ntstatus.Success, data("0123456789"))}, want: "0123456789"},
		"short":            {by: served{smbwire.CommandRead: with(ntstatus.Success, data("012"))}, want: "012"},
		"empty":            {by: served{smbwire.CommandRead: refusal(ntstatus.EndOfFile)}},
		"too long":         {by: served{smbwire.CommandRead: with(ntstatus.Success, data("0123456789A"))}, err: ErrProtocol},
		"nonsense":         {by: served{smbwire.CommandRead: with(ntstatus.Success, smbwire.Empty{})}, err: ErrProtocol},
		"refused":          {by: served{smbwire.CommandRead: refusal(ntstatus.FileLockConflict)}, err: ntstatus.FileLockConflict},
		"no file":          {by: served{smbwire.CommandCreate: refusal(ntstatus.ObjectNameNotFound), smbwire.CommandRead: refusal(ntstatus.ObjectNameNotFound)}, err: fs.ErrNotExist},
		"nonsense for one": {by: served{smbwire.CommandCreate: with(ntstatus.Success, smbwire.Empty{})}, err: ErrProtocol},
		"refused close": {by: served{
			smbwire.CommandRead: with(ntstatus.Success, data("01")), smbwire.CommandClose: refusal(ntstatus.FileClosed),
		}, err: ntstatus.FileClosed},
	} {
		t.Run(name, func(t *testing.T) {
			f, tree := fakeMount(t, replies(test.by), nil)
			p := bytes.Repeat([]byte{0xEE}, 12)
			n, info, err := tree.ReadHead(t.Context(), "f", p[:10])
			if !errors.Is(err, test.err) {
				t.Fatalf("%v", err)
			}
			if err == nil && (string(p[:n]) != test.want || info.Size != 1<<40) {
				t.Errorf("%q of %d bytes", p[:n], info.Size)
			}
			if !bytes.Equal(p[10:], []byte{0xEE, 0xEE}) {
				t.Error("memory of the caller behind p is changed")
			}
			if err := tree.s.conn.run(t.Context(), request{command: smbwire.CommandEcho, body: smbwire.Empty{}}); err != nil {
				t.Fatal(err)
			}
			if got := commands(f); !slices.Equal(got, []smbwire.Command{smbwire.CommandCreate, smbwire.CommandRead, smbwire.CommandClose}) {
				t.Errorf("requests: %v", got)
			}
		})
	}
	_, tree := fakeMount(t, nil, nil)
	if _, _, err := tree.ReadHead(t.Context(), "f", make([]byte, tree.MaxSmall()+1)); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if _, err := tree.Create(t.Context(), CreateRequest{Name: "f", Data: make([]byte, tree.MaxSmall()+1)}); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// Space takes the numbers of a server, unless they cannot be those of a file system.
func TestSpaceChecksNumbers(t *testing.T) {
	full := func(total, available, free uint64, sectors, size uint32) func(f *fake, h smbwire.Header) {
		i := smbwire.FSFullSizeInfo{TotalUnits: total, CallerAvailableUnits: available, ActualAvailableUnits: free, SectorsPerUnit: sectors, BytesPerSector: size}
		return with(ntstatus.Success, &smbwire.BufferResponse{Data: i.AppendTo(nil)})
	}
	for name, test := range map[string]struct {
		by   func(f *fake, h smbwire.Header)
		want Space
		err  error
	}{
		"whole":         {by: full(100, 20, 30, 8, 512), want: Space{Total: 409600, Free: 122880, Available: 81920, BlockSize: 4096}},
		"the most":      {by: full(1<<51-1, 0, 0, 8, 512), want: Space{Total: 1<<63 - 4096, BlockSize: 4096}},
		"too many":      {by: full(1<<51, 0, 0, 8, 512), err: ErrProtocol},
		"more free":     {by: full(1, 0, 1<<63, 8, 512), err: ErrProtocol},
		"no unit":       {by: full(1, 1, 1, 0, 512), err: ErrProtocol},
		"a large unit":  {by: full(0, 0, 0, 1<<32-1, 1<<32-1), err: ErrProtocol},
		"short":         {by: with(ntstatus.Success, &smbwire.BufferResponse{Data: make([]byte, 31)}), err: ErrProtocol},
		"long":          {by: with(ntstatus.Success, &smbwire.BufferResponse{Data: make([]byte, 33)}), err: ErrProtocol},
		"refused":       {by: refusal(ntstatus.AccessDenied), err: fs.ErrPermission},
		"of a question": {by: with(ntstatus.Success, smbwire.Empty{}), err: ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			f, tree := fakeMount(t, replies(served{smbwire.CommandQueryInfo: test.by}), nil)
			if got, err := tree.Space(t.Context()); got != test.want || !errors.Is(err, test.err) {
				t.Errorf("%+v, %v; want %+v, %v", got, err, test.want, test.err)
			}
			if err := tree.s.conn.run(t.Context(), request{command: smbwire.CommandEcho, body: smbwire.Empty{}}); err != nil {
				t.Fatal(err)
			}
			if got := commands(f); !slices.Equal(got, []smbwire.Command{smbwire.CommandCreate, smbwire.CommandQueryInfo, smbwire.CommandClose}) {
				t.Errorf("requests: %v", got)
			}
		})
	}
}

// commands lists the requests on files so far.
func commands(f *fake) (list []smbwire.Command) {
	for _, h := range f.requests() {
		if h.Command >= smbwire.CommandCreate && h.Command != smbwire.CommandEcho && h.Command != smbwire.CommandIoctl {
			list = append(list, h.Command)
		}
	}
	return list
}

// A file whose data or deletion the server refuses is closed, and Create fails.
func TestCreateClosesFileWithoutItsData(t *testing.T) {
	set, wrote := with(ntstatus.Success, smbwire.SetInfoResponse{}), with(ntstatus.Success, &smbwire.WriteResponse{Count: 4})
	for name, test := range map[string]struct {
		by  served
		err error
	}{
		"done":            {by: served{smbwire.CommandSetInfo: set, smbwire.CommandWrite: wrote}},
		"refused delete":  {by: served{smbwire.CommandSetInfo: refusal(ntstatus.CannotDelete), smbwire.CommandWrite: wrote}, err: ntstatus.CannotDelete},
		"full disk":       {by: served{smbwire.CommandSetInfo: set, smbwire.CommandWrite: refusal(ntstatus.DiskFull)}, err: ntstatus.DiskFull},
		"written in part": {by: served{smbwire.CommandSetInfo: set, smbwire.CommandWrite: with(ntstatus.Success, &smbwire.WriteResponse{Count: 3})}, err: ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			f, tree := fakeMount(t, replies(test.by), nil)
			file, err := tree.Create(t.Context(), CreateRequest{Name: "f", DeletePending: true, Data: []byte("data")})
			if !errors.Is(err, test.err) || (file == nil) != (test.err != nil) {
				t.Fatal(file, err)
			}
			want := []smbwire.Command{smbwire.CommandCreate, smbwire.CommandSetInfo, smbwire.CommandWrite}
			if test.err != nil {
				want = append(want, smbwire.CommandClose)
			}
			for end := time.Now().Add(time.Minute); len(commands(f)) < len(want) && time.Now().Before(end); {
				time.Sleep(time.Millisecond) // the CLOSE is sent behind the call
			}
			if got := commands(f); !slices.Equal(got, want) {
				t.Errorf("requests: %v", got)
			}
		})
	}
}

// A file with a pending deletion is kept under another name, in place of the file there, or stays as it is.
func TestKeepRenamesOrLeaves(t *testing.T) {
	tree, dir := mount(t, nil)
	ctx, q := t.Context(), readWrite("temporary")
	q.DeletePending, q.Data, q.Access = true, []byte("new"), q.Access|accessDelete
	for name, content := range map[string]string{"f": "old", "busy": "old"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	busy := open(t, tree, readWrite("busy"))
	defer busy.Close(ctx)
	f := open(t, tree, q)
	if err := f.Keep(ctx, "busy"); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if i, err := f.Stat(ctx); err != nil || i.DeletePending {
		t.Errorf("after a refused rename: %+v, %v", i, err)
	}
	if err := errors.Join(f.SetDelete(ctx, true), f.Keep(ctx, "f"), f.Close(ctx)); err != nil {
		t.Error(err)
	}
	if got := contents(t, filepath.Join(dir, "f")); got != "new" {
		t.Errorf("%q", got)
	}
	if err := f.Keep(ctx, "g"); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if err := f.Keep(ctx, strings.Repeat("x/", 40_000)); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if _, err := tree.Stat(ctx, "temporary"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Keep reports why the deletion was not taken back, and not that the rename failed because of it.
func TestKeepReportsFirstFailure(t *testing.T) {
	var changes int
	_, tree := fakeMount(t, replies(served{smbwire.CommandSetInfo: func(f *fake, h smbwire.Header) {
		st := ntstatus.DiskFull // of the state of the server
		if changes++; changes == 2 {
			st = ntstatus.AccessDenied
		}
		f.reply(h, st, &smbwire.ErrorResponse{})
	}}), nil)
	if err := open(t, tree, readWrite("f")).Keep(t.Context(), "g"); !errors.Is(err, ntstatus.DiskFull) {
		t.Error(err)
	}
}
