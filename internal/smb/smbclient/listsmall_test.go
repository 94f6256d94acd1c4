package smbclient

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// A directory that fits into a message is listed with it.
func TestListSmallListsSmallDirectories(t *testing.T) {
	tree, dir := mount(t, nil)
	put := func(n int) {
		for i := range n {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("a file with a name %05d", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range []int{0, 1, 100, 1000} {
		put(n)
		list, small, err := tree.ListSmall(t.Context(), "")
		if err != nil || small != (n < 1000) {
			t.Fatalf("%d files: small %v, %v", n, small, err)
		}
		if !small {
			continue
		}
		var got []string
		for e, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Name)
		}
		slices.Sort(got)
		if len(got) != n || n > 0 && got[n-1] != fmt.Sprintf("a file with a name %05d", n-1) {
			t.Errorf("%d files: %q", n, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"f": syscall.ENOTDIR, "none": fs.ErrNotExist, "a:b": fs.ErrInvalid} {
		if _, _, err := tree.ListSmall(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ListSmall takes the entries of its responses, and nothing else.
func TestListSmallChecksResponses(t *testing.T) {
	answers := func(list ...func(f *fake, h smbwire.Header)) served {
		n := 0
		return served{smbwire.CommandQueryDirectory: func(f *fake, h smbwire.Header) { n++; list[n-1](f, h) }}
	}
	bytes := func(n int) func(f *fake, h smbwire.Header) {
		return with(ntstatus.Success, &smbwire.BufferResponse{Data: make([]byte, n)})
	}
	end := refusal(ntstatus.NoMoreFiles)
	for name, test := range map[string]struct {
		by    served
		small bool
		err   error
	}{
		"empty":     {answers(refusal(ntstatus.NoSuchFile), end), true, nil},
		"large":     {answers(bytes(100), bytes(100)), false, nil},
		"too long":  {answers(bytes(dirRoom+1), end), false, ErrProtocol},
		"more than": {answers(bytes(100), bytes(restRoom+1)), false, ErrProtocol},
		"nothing":   {answers(bytes(0), end), false, ErrProtocol},
		"refused":   {answers(refusal(ntstatus.AccessDenied), end), false, fs.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			f, tree := fakeMount(t, replies(test.by), nil)
			list, small, err := tree.ListSmall(t.Context(), "d")
			if small != test.small || !errors.Is(err, test.err) {
				t.Errorf("small %v, %v", small, err)
			}
			if small {
				for e, err := range list {
					t.Errorf("%+v, %v", e, err)
				}
			}
			if err := tree.s.conn.run(t.Context(), request{command: smbwire.CommandEcho, body: smbwire.Empty{}}); err != nil {
				t.Fatal(err)
			}
			want := []smbwire.Command{smbwire.CommandCreate, smbwire.CommandQueryDirectory, smbwire.CommandQueryDirectory, smbwire.CommandClose}
			if got := commands(f); !slices.Equal(got, want) {
				t.Errorf("requests: %v", got)
			}
		})
	}
}

// BenchmarkListSmall lists a directory of 20 files in one message.
func BenchmarkListSmall(b *testing.B) {
	tree, dir := mount(b, nil)
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, small, err := tree.ListSmall(b.Context(), ""); !small || err != nil {
			b.Fatal(small, err)
		}
	}
}
