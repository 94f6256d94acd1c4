package userfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"lwio/cmd/lwio/internal/secret"
	"lwio/internal/test/leakcheck"
	"lwio/server"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// hashLine is the line of a user.
func hashLine(name, password string) string {
	return fmt.Sprintf("%s:{NT}%x", name, server.NTHash(password))
}

// put makes a file of users with mode 0600.
func put(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A user without a password keeps its line, and has the hash with which no user can log on by NTLM.
func TestUserWithoutPasswordIsKept(t *testing.T) {
	name := put(t, "alice:{KERBEROS}\n"+hashLine("bob", "b")+"\n")
	if err := Change(name, func(f *File) error { f.Set(User{Name: "carol", NTHash: NoPassword}); return nil }); err != nil {
		t.Fatal(err)
	}
	f, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ALICE", "carol"} {
		if _, hash, ok := f.Lookup("", user); !ok || hash != server.NTHash("") {
			t.Errorf("%s: %x, %t", user, hash, ok)
		}
	}
	text, err := os.ReadFile(name)
	if want := "alice:{KERBEROS}\n" + hashLine("bob", "b") + "\ncarol:{KERBEROS}\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

// Each valid line is a user, and each invalid one is named by its number without its content.
func TestReadChecksEachLine(t *testing.T) {
	long := strings.Repeat("n", maxName)
	for _, c := range []struct {
		name, content string
		users         []string
		err           string
	}{
		{"hashes", hashLine("alice", "a") + "\n" + hashLine("bob", "b") + "\n", []string{"alice", "bob"}, ""},
		{"DOS ends", hashLine("alice", "a") + "\r\n", []string{"alice"}, ""},
		{"upper case digits", strings.ToUpper(hashLine("alice", "a")), []string{"ALICE"}, ""},
		{"plain, with a colon", "alice:a:b\n", []string{"alice"}, ""},
		{"comments and empty lines", "# users\n\n" + hashLine("alice", "a") + "\n#bob:x\n", []string{"alice"}, ""},
		{"without a password", "alice:{KERBEROS}\n", []string{"alice"}, ""},
		{"no users", "", nil, ""},
		{"longest name", long + ":x\n", []string{long}, ""},
		{"name in two alphabets", "Ærøskøbing:x\n", []string{"Ærøskøbing"}, ""},
		{"no colon", "alice:x\nsecret\n", nil, "line 2: not of the form"},
		{"no name", ":secret\n", nil, "line 1: no user name"},
		{"name too long", long + "n:x\n", nil, "line 1: a user name of more than"},
		{"name of all users", "*:secret\n", nil, "line 1: a user name has a character"},
		{"name with a backslash", `D\alice:secret` + "\n", nil, "line 1: a user name has a character"},
		{"name with a space at the end", "alice :secret\n", nil, "line 1: a user name has a character"},
		{"name with a control character", "ali\tce:secret\n", nil, "line 1: a user name has a character"},
		{"name that is no text", "\xff:secret\n", nil, "line 1: a user name has a character"},
		{"empty password", "bob:x\nalice:\n", nil, "line 2: the password is empty"},
		{"hash of the empty password", hashLine("alice", "") + "\n", nil, "line 1: the password is empty"},
		{"short hash", "alice:{NT}0123\n", nil, "line 1: behind {NT}"},
		{"long hash", hashLine("alice", "a") + "0\n", nil, "line 1: behind {NT}"},
		{"hash of other characters", "alice:{NT}" + strings.Repeat("secretzz", 4) + "\n", nil, "line 1: behind {NT}"},
		{"no hash", "alice:{NT}\n", nil, "line 1: behind {NT}"},
		{"password that is no text", "alice:secret\xff\n", nil, "line 1: the password has a character"},
		{"password with NUL", "alice:sec\x00ret\n", nil, "line 1: the password has a character"},
		{"twice", "alice:x\nalice:y\n", nil, "line 2: the user occurs twice"},
		{"twice, in another case", "alice:x\nALICE:y\n", nil, "line 2: the user occurs twice"},
		{"twice, with a long s", "boss:x\nbo\u017fs:y\n", nil, "line 2: the user occurs twice"},
	} {
		name := put(t, c.content)
		f, err := Read(name)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			} else if strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: the error has content of the file: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var names []string
		for _, u := range f.Users() {
			names = append(names, u.Name)
		}
		if !slices.Equal(names, c.users) {
			t.Errorf("%s: users %q, want %q", c.name, names, c.users)
		}
	}
}

// All spellings of a name find the user, with the name of the file.
func TestLookupReturnsTheNameOfTheFile(t *testing.T) {
	f, err := Read(put(t, hashLine("Boss", "a")+"\nbob:plain\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, typed := range []string{"boss", "BOSS", "Boss", "bo\u017fs"} {
		name, hash, ok := f.Lookup("ANY", typed)
		if !ok || name != "Boss" || hash != server.NTHash("a") {
			t.Errorf("%q is %q, %t", typed, name, ok)
		}
	}
	if _, hash, ok := f.Lookup("", "bob"); !ok || hash != server.NTHash("plain") {
		t.Error("bob has another password")
	}
	if name, hash, ok := f.Lookup("", "eve"); ok || name != "" || hash != [16]byte{} {
		t.Error("eve is known")
	}
}

// A change keeps comments, order and spelling, and makes hashes of plain passwords. A failed change
// changes nothing.
func TestChangeKeepsOtherLines(t *testing.T) {
	name := put(t, "# team\nAlice:plain\n\n"+hashLine("bob", "b")+"\neve:x")
	err := Change(name, func(f *File) error {
		f.Set(User{Name: "ALICE", NTHash: server.NTHash("new")})
		f.Set(User{Name: "carol", NTHash: server.NTHash("c")})
		if !f.Remove("BOB") || f.Remove("bob") {
			t.Error("bob is not removed once")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "# team\n" + hashLine("Alice", "new") + "\n\n" + hashLine("eve", "x") + "\n" + hashLine("carol", "c") + "\n"
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("the file is\n%s, %v, want\n%s", got, err, want)
	}
	refused := errors.New("refused")
	err = Change(name, func(f *File) error {
		f.Remove("Alice")
		return refused
	})
	if got, e := os.ReadFile(name); !errors.Is(err, refused) || e != nil || string(got) != want {
		t.Errorf("%v; the file is\n%s", err, got)
	}
	if f, err := Read(name); err != nil || len(f.Users()) != 3 || !f.Has("carol") || f.Has("bob") {
		t.Errorf("read again: %v, %v", f, err)
	}
}

// The file of a change has mode 0600. A file that others may read is neither read nor changed.
func TestChangeOfModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the system has no such modes
	}
	name := filepath.Join(t.TempDir(), "users")
	add := func(f *File) error {
		f.Set(User{Name: "alice", NTHash: server.NTHash("a")})
		return nil
	}
	for _, when := range []string{"new", "changed"} {
		if err := Change(name, add); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", when, info.Mode(), err)
		}
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o644, 0o777} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(name); !errors.Is(err, secret.ErrMode) {
			t.Errorf("read with mode %#o: %v", mode, err)
		}
		if err := Change(name, add); !errors.Is(err, secret.ErrMode) {
			t.Errorf("change with mode %#o: %v", mode, err)
		}
	}
}

// A change of a symbolic link changes the target.
func TestChangeFollowsLinks(t *testing.T) {
	target := put(t, hashLine("alice", "a")+"\n")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := Change(link, func(f *File) error { f.Remove("alice"); return nil }); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || len(got) != 0 {
		t.Errorf("the target has %q, %v", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}
}

// Concurrent changes are all made, and leave no other file.
func TestConcurrentChangesAreAllMade(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the system has no such lock
	}
	name := filepath.Join(t.TempDir(), "users")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			err := Change(name, func(f *File) error {
				f.Set(User{Name: fmt.Sprint("user", i), NTHash: server.NTHash("x")})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f, err := Read(name); err != nil || len(f.Users()) != 20 {
		t.Errorf("%d users, %v", len(f.Users()), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}

// A file that can be read is the same after a change that changes nothing and a second reading.
func FuzzParse(f *testing.F) {
	f.Add("# team\nAlice:plain\n\n" + hashLine("bob", "b") + "\n")
	f.Add("alice:{NT}\n")
	f.Add(":\n\xff:x")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := parse(strings.Split(text, "\n"))
		if err != nil {
			return
		}
		written := string(first.text())
		second, err := parse(strings.Split(written, "\n"))
		if err != nil {
			t.Fatalf("%v in\n%s", err, written)
		}
		if again := string(second.text()); again != written {
			t.Fatalf("written as\n%q, then as\n%q", written, again)
		}
		for _, u := range first.Users() {
			if name, hash, ok := second.Lookup("", u.Name); !ok || name != u.Name || hash != u.NTHash {
				t.Fatalf("user %q is %q, %t", u.Name, name, ok)
			}
			if u.NTHash == server.NTHash("") {
				t.Fatalf("user %q has an empty password", u.Name)
			}
		}
	})
}
