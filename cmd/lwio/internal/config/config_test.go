package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lwio/internal/test/leakcheck"
	"lwio/vfs"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// put makes a configuration file.
func put(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lwio.toml")
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// users makes the users of a right.
func users(names ...string) (list []UserName) {
	for _, name := range names {
		list = append(list, UserName{name})
	}
	return list
}

const whole = `users = "users"
listen = "[::]:4450"
rdma-listen = ["10.1.0.1:5445", "10.2.0.1:5445"]
provider = ["iwarp", "shm"]
encryption = "required"
insecure-network = true
leases = "files"
keytab = "/etc/lwio/keytab"
realm = "EXAMPLE.COM"
require-kerberos = true
state = "/run/lwio"
read-only = true
allow-md5 = true
metrics = ":9150"
audit = "audit"
durable-timeout = "90s"
keep-alive = "0s"
smb-connections = 10
connections = 0
unauthenticated = 12
files = 13
orphans = 14
smb-memory = "128m"
read-memory = "64MiB"
write-memory = 1073741824
request-rate = 150
byte-rate = "1g"
byte-burst = "1m"
user-connections = 16
auth-failures = -1
allow-uid = ["1000", "1001"]
no-crc = true
verbose = true
server-name = "db1"
auth-timeout = "6s"
stall-timeout = "31s"
busy-poll = "10us"
session-connections = 17
connection-files = 18
registrations = 19
credits = 20
max-credits = 21
workers = 22
max-read = "1m"
max-write = "128k"
max-write-by-reference = "256k"
immediate-data = true

[[share]]
name = "data"
path = "sub/data"
read = ["*"]
write = ["alice", "Bob"]

[[share]]
name = "archive"
path = "/srv/archive"
read-only = true
write = ["alice"]
encryption = "required"
`

func TestReadReturnsAllSettings(t *testing.T) {
	name := put(t, whole)
	dir := filepath.Dir(name)
	got, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{
		"listen": "[::]:4450", "rdma-listen": "10.1.0.1:5445,10.2.0.1:5445", "provider": "iwarp,shm", "encryption": "required",
		"leases": "files", "insecure-network": "true", "keytab": "/etc/lwio/keytab", "realm": "EXAMPLE.COM", "require-kerberos": "true", "state": "/run/lwio",
		"read-only": "true", "allow-md5": "true", "metrics": ":9150", "audit": filepath.Join(dir, "audit"),
		"durable-timeout": "90s", "keep-alive": "0s", "smb-connections": "10", "connections": "0", "unauthenticated": "12",
		"files": "13", "orphans": "14", "smb-memory": "128m", "read-memory": "64MiB", "write-memory": "1073741824", "request-rate": "150",
		"byte-rate": "1g", "byte-burst": "1m", "user-connections": "16", "auth-failures": "-1", "allow-uid": "1000,1001",
		"no-crc": "true", "verbose": "true", "server-name": "db1", "auth-timeout": "6s", "stall-timeout": "31s", "busy-poll": "10us",
		"session-connections": "17", "connection-files": "18", "registrations": "19", "credits": "20", "max-credits": "21", "workers": "22",
		"max-read": "1m", "max-write": "128k", "max-write-by-reference": "256k", "immediate-data": "true",
	}
	if d := cmp.Diff(settings, got.values); d != "" {
		t.Error(d)
	}
	if len(settings) != len(Settings()) {
		t.Errorf("the test has %d of %d settings", len(settings), len(Settings()))
	}
	got.values, got.lines, got.tables, got.name = nil, nil, nil, ""
	want := &File{
		Users: filepath.Join(dir, "users"),
		Shares: []Share{
			{Name: "data", Path: filepath.Join(dir, "sub", "data"), Read: users("*"), Write: users("alice", "Bob")},
			{Name: "archive", Path: "/srv/archive", ReadOnly: true, Write: users("alice"), Encryption: Encryption{required: true}},
		},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(UserName{}, Encryption{}, File{})); d != "" {
		t.Error(d)
	}
	if named := got.Shares[0].Users(); !slices.Equal(named, []string{"alice", "Bob"}) {
		t.Errorf("the rights name %q", named)
	}
}

// Each mistake is reported with the file, and with the line where the file has one.
func TestReadReportsFileAndLine(t *testing.T) {
	share := "\n[[share]]\nname = \"data\"\npath = \"d\"\n" // lines 2 to 4 behind a first line
	for _, c := range []struct {
		name, content string
		want          []string
	}{
		{"unknown key", "users = \"u\"" + share + "read = [\"*\"]\nquota = 5\n", []string{`:6: unknown key "share.quota"`}},
		{"unknown keys", "users = \"u\"\nuser = \"x\"" + share + "raed = [\"*\"]\nread = [\"*\"]\n", []string{`:2: unknown key "user"`, `:6: unknown key "share.raed"`}},
		{"unknown table", "users = \"u\"" + share + "read = [\"*\"]\n[server]\nname = \"x\"\n", []string{`:6: unknown key "server`}},
		{"wrong kind", "users = 5" + share + "read = [\"*\"]\n", []string{":1: "}},
		{"wrong kind in a share", "users = \"u\"" + share + "read-only = \"yes\"\n", []string{":5: "}},
		{"one name in place of a list", "users = \"u\"" + share + "read = \"alice\"\n", []string{":5: "}},
		{"invalid user name", "users = \"u\"" + share + "read = [\"a\",\n \"b:c\"]\n", []string{":6: ", "user name"}},
		{"empty user name", "users = \"u\"" + share + "read = [\"\"]\n", []string{":5: ", "no user name"}},
		{"unknown encryption", "users = \"u\"" + share + "read = [\"*\"]\nencryption = \"off\"\n", []string{":6: ", "offered"}},
		{"unknown leases", "users = \"u\"\nleases = \"on\"" + share, []string{":2: ", "files"}},
		{"unknown encryption of the server", "users = \"u\"\nencryption = \"on\"" + share, []string{":2: ", "offered"}},
		{"no port", "users = \"u\"\nlisten = \"db1\"" + share, []string{":2: ", "port"}},
		{"RDMA address with a name", "users = \"u\"\nrdma-listen = [\n\"db1:5\"]" + share, []string{":2: rdma-listen: "}},
		{"no time", "users = \"u\"\nkeep-alive = \"10\"" + share, []string{":2: ", "90s"}},
		{"a time below 0", "users = \"u\"\nkeep-alive = \"-1s\"" + share, []string{":2: ", "90s"}},
		{"no number", "users = \"u\"\nfiles = \"many\"" + share, []string{":2: ", "integer"}},
		{"half a number", "users = \"u\"\nfiles = 1.5" + share, []string{":2: files: ", "integer"}},
		{"a number as a text", "users = \"u\"\nfiles = \"5\"" + share, []string{":2: files: ", "integer"}},
		{"a number that is too high", "users = \"u\"\ncredits = 1025" + share, []string{":2: credits: it is at most 1024"}},
		{"a text that is no boolean", "users = \"u\"\n\nverbose = \"yes\"" + share, []string{":3: verbose: true or false"}},
		{"a text that is a number", "users = \"u\"\nrealm = 5" + share, []string{":2: realm: "}},
		{"a time without a unit", "users = \"u\"\nkeep-alive = 10" + share, []string{":2: keep-alive: "}},
		{"a size with another unit", "users = \"u\"\nsmb-memory = \"128s\"" + share, []string{":2: smb-memory: "}},
		{"a size that is too small", "users = \"u\"\nsmb-memory = 5" + share, []string{":2: smb-memory: it is at least 4352k"}},
		{"several", "users = \"u\"\nfiles = -1\nsmb-memory = 5" + share, []string{":2: files: ", ":3: smb-memory: ", ":4: share \"data\""}},
		{"two shares of a name", "users = \"u\"" + share + "read = [\"*\"]" + strings.Replace(share, "data", "DATA", 1) + "read = [\"*\"]", []string{":6: share \"DATA\": two shares"}},
		{"a list of numbers", "users = \"u\"\nfiles = [1]" + share, []string{":2: "}},
		{"no size", "users = \"u\"\nsmb-memory = \"12x\"" + share, []string{":2: ", "64m"}},
		{"one provider in place of a list", "users = \"u\"\nprovider = \"shm\"" + share, []string{":2: "}},
		{"no syntax", "users = \"u\n", []string{":1: "}},
		{"key twice", "users = \"u\"\nusers = \"v\"\n", []string{":2: "}},
		{"no users", strings.TrimPrefix(share, "\n") + "read = [\"*\"]\n", []string{": no key users"}},
		{"no share", "users = \"u\"\n", []string{": no [[share]]"}},
		{"share without a name", "users = \"u\"\n[[share]]\npath = \"d\"\nread = [\"*\"]\n", []string{":2: share 1 has no name"}},
		{"share without a path", "users = \"u\"\n[[share]]\nname = \"d\"\nread = [\"*\"]\n", []string{`:2: share "d" has no path`}},
		{"share without users", "users = \"u\"" + share, []string{`:2: share "data": no user may use it`}},
		{"too long", strings.Repeat("#", maxSize+1), []string{"longer than"}},
		{"no text", "\xff\xfe", []string{""}},
	} {
		name := put(t, c.content)
		_, err := Read(name)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, want := range c.want {
			if strings.HasPrefix(want, ":") {
				want = name + want
			}
			if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: error %v, want %q", c.name, err, want)
			}
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// The settings of a file change those that the command line does not give, and differences have names.
func TestApplyAndChanged(t *testing.T) {
	defaults := Defaults([]string{"shm", "iwarp"})
	none := func(string) bool { return false }
	apply := func(text string, given func(string) bool) Options {
		t.Helper()
		f, err := Read(put(t, text))
		if err != nil {
			t.Fatal(err)
		}
		o, err := f.Apply(defaults, given)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	first := apply(whole, none)
	for _, c := range []struct {
		from, to string
		want     []string
	}{
		{"", "", nil},
		{`read = ["*"]`, `read = ["bob"]`, nil},
		{"[::]:4450", "[::]:4451", []string{"listen"}},
		{`"10.1.0.1:5445", `, "", []string{"rdma-listen"}},
		{`"iwarp", "shm"`, `"shm", "iwarp"`, []string{"provider"}},
		{"encryption = \"required\"\ninsecure-network = true", "", []string{"encryption", "insecure-network"}},
		{`"/etc/lwio/keytab"`, `"/other"`, []string{"keytab"}},
		{"realm = \"EXAMPLE.COM\"\nrequire-kerberos = true", "", []string{"realm", "require-kerberos"}},
		{`leases = "files"`, `leases = "off"`, []string{"leases"}},
		{`state = "/run/lwio"`, "", []string{"state"}},
		{`durable-timeout = "90s"`, `durable-timeout = "1m30s"`, nil},
		{"orphans = 14\nsmb-memory = \"128m\"", "smb-memory = \"64m\"", []string{"orphans", "smb-memory"}},
		{"unauthenticated = 12", "unauthenticated = 64", []string{"unauthenticated"}},
	} {
		next := apply(strings.Replace(whole, c.from, c.to, 1), none)
		next.Audit = first.Audit // the files have different directories
		if got := Changed(&first, &next); !slices.Equal(got, c.want) {
			t.Errorf("%q to %q: %q, want %q", c.from, c.to, got, c.want)
		}
	}
	if o := apply(whole, func(string) bool { return true }); len(Changed(&defaults, &o)) != 0 {
		t.Errorf("settings that the command line has: %q", Changed(&defaults, &o))
	}
}

// Each setting has a description, keeps its bounds, and keeps its default.
func TestSettingsKeepTheirBounds(t *testing.T) {
	defaults := Defaults(nil)
	for _, s := range Settings() {
		if s.Help == "" || s.Type() == "" {
			t.Errorf("%s has no description", s.Key)
		}
		o := defaults
		v, ok := s.value(&o).(amount)
		if !ok {
			continue
		}
		if err := s.Set(&o, v.String()); err != nil {
			t.Errorf("%s does not take its default %s: %v", s.Key, v.String(), err)
		}
		set := func(n int64) error { return s.Set(&o, v.format(n)) }
		if s.Type() != "size" {
			if err := set(s.Min - 1); err == nil && s.Min != 1 {
				t.Errorf("%s takes %s", s.Key, v.format(s.Min-1))
			}
		} else if s.Min > 0 && (set(s.Min-1) == nil || set(s.Min) != nil) {
			t.Errorf("%s does not keep its least value %s", s.Key, v.format(s.Min))
		}
		if s.Max > 0 && (set(s.Max+1) == nil || set(s.Max) != nil) {
			t.Errorf("%s does not keep its highest value %s", s.Key, v.format(s.Max))
		}
	}
}

// A file that the group or all users may change gives them all rights, and is refused.
func TestReadRefusesFilesThatOthersMayChange(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the system has no such modes
	}
	name := put(t, whole)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o640: true, 0o664: false, 0o620: false, 0o666: false, 0o602: false} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Read(name)
		if (err == nil) != ok || !ok && (!strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "chmod go-w")) {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
}

// The highest right counts; all spellings of a user are one user; a share without rights gives none.
func TestRightsOfUsers(t *testing.T) {
	for _, c := range []struct {
		share Share
		want  map[string]vfs.Rights
	}{
		{Share{Read: users("*"), Write: users("alice")}, map[string]vfs.Rights{"alice": vfs.ReadWrite, "ALICE": vfs.ReadWrite, "bob": vfs.ReadOnly}},
		{Share{Read: users("alice")}, map[string]vfs.Rights{"alice": vfs.ReadOnly, "bob": vfs.NoAccess, "": vfs.NoAccess}},
		{Share{Read: users("alice"), Write: users("alice", "boss")}, map[string]vfs.Rights{"alice": vfs.ReadWrite, "bo\u017fs": vfs.ReadWrite}},
		{Share{Write: users("alice")}, map[string]vfs.Rights{"alice": vfs.ReadWrite, "bob": vfs.NoAccess}},
		{Share{Write: users("*")}, map[string]vfs.Rights{"alice": vfs.ReadWrite, "bob": vfs.ReadWrite}},
		{Share{Read: users("bob"), Write: users("alice"), ReadOnly: true}, map[string]vfs.Rights{"alice": vfs.ReadOnly, "bob": vfs.ReadOnly, "eve": vfs.NoAccess}},
		{Share{}, map[string]vfs.Rights{"alice": vfs.NoAccess}},
	} {
		rights := c.share.Rights()
		for user, want := range c.want {
			if got := rights.Of(user); got != want {
				t.Errorf("read %v, write %v: %q has %v, want %v", c.share.Read, c.share.Write, user, got, want)
			}
		}
	}
	if got := (Rights{}).Of("alice"); got != vfs.NoAccess {
		t.Errorf("rights of no share: %v", got)
	}
}

// Reading never panics. A file that is accepted names users, and shares with a name, a path and a user.
func FuzzRead(f *testing.F) {
	f.Add(whole)
	f.Add("users = \"u\"\n[[share]]\nname = \"x\"\npath = \"/\"\nread = [\"*\"]\n")
	f.Add("[[share]]\n[share.x]\ny = {z = [1, \"2\"]}\n")
	dir := f.TempDir()
	n := 0
	f.Fuzz(func(t *testing.T, text string) {
		n++
		name := filepath.Join(dir, fmt.Sprint(os.Getpid(), "-", n))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(name)
		c, err := Read(name)
		if err != nil {
			if !strings.Contains(err.Error(), name) {
				t.Fatalf("an error without the file: %v", err)
			}
			return
		}
		for _, s := range c.Shares {
			if s.Name == "" || s.Path == "" || len(s.Read)+len(s.Write) == 0 {
				t.Fatalf("accepted share %+v", s)
			}
			s.Rights().Of("alice")
		}
	})
}

// The example of a configuration is one, with and without the keys that are not in effect.
func TestExampleIsAConfiguration(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "packaging", "server.toml"))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(string(text), "$1")
	for _, content := range []string{string(text), all} {
		f, err := Read(put(t, content))
		if err != nil {
			t.Fatal(err)
		}
		o, err := f.Apply(Defaults([]string{"shm", "iwarp"}), func(string) bool { return false })
		if err == nil {
			err = f.Check(&o, func(string) bool { return false })
		}
		if err != nil {
			t.Error(err)
		}
	}
	f, err := Read(put(t, all))
	if err != nil || len(f.values) < 10 || !f.Has("state") {
		t.Errorf("the example has %d settings, %v", len(f.values), err)
	}
}
