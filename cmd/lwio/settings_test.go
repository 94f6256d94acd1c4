package main

import (
	goflag "flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lwio/cmd/lwio/internal/config"
	"lwio/server"
)

var update = goflag.Bool("update", false, "write the table of settings into docs/use/config.md")

// flagsWithoutKey are the flags of serve that a configuration file does not have.
var flagsWithoutKey = map[string]string{
	"config":        "names the file",
	"check":         "is no setting",
	"json":          "is no setting",
	"help":          "is no setting",
	"user":          "the file names a file of users instead",
	"password-file": "the file names a file of users instead",
}

// fieldsWithoutSetting are the fields of server.Config and server.Limits that no setting changes.
var fieldsWithoutSetting = map[string]string{
	"FS":           "the shares of the command line or of the file",
	"Lookup":       "the users of the file of users",
	"Kerberos":     "keytab and realm make it",
	"Logger":       "verbose and audit make it",
	"Limits":       "has fields of its own",
	"RequireState": "set in a hand-over",
}

// serveFlags returns the flags of serve.
func serveFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	root := new(app).root()
	cmd, _, err := root.Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.InitDefaultHelpFlag()
	all := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	for _, f := range []func() *pflag.FlagSet{cmd.LocalFlags, cmd.InheritedFlags} {
		all.AddFlagSet(f())
	}
	return all
}

// optionsOf returns the options of serve with flags, and the error of parsing and checking them.
func optionsOf(t *testing.T, args ...string) (*serveOptions, error) {
	t.Helper()
	a := new(app)
	cmd, _, err := a.root().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	o := new(serveOptions)
	if err := cmd.ParseFlags(args); err != nil {
		return o, err
	}
	o.configFile = cmd.Flags().Lookup("config").Value.String()
	o.given = func(key string) bool { return cmd.Flags().Lookup(key).Changed }
	err = a.configure(o)
	return o, err
}

// Each flag of serve is a setting, and so a key of the configuration file, or stands in the table of those that are none.
func TestEachFlagOfServeIsASetting(t *testing.T) {
	flags := serveFlags(t)
	var keys []string
	for _, s := range config.Settings() {
		keys = append(keys, s.Key)
		if flags.Lookup(s.Key) == nil {
			t.Errorf("the key %q is no flag of serve", s.Key)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if _, without := flagsWithoutKey[f.Name]; without == slices.Contains(keys, f.Name) {
			t.Errorf("--%s: exactly one of the settings and flagsWithoutKey must have it", f.Name)
		}
	})
	for name := range flagsWithoutKey {
		if flags.Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
}

// The document has the table of settings. With -update the test writes it.
func TestDocumentHasTheSettings(t *testing.T) {
	const begin, end = "<!-- settings -->\n", "<!-- end of settings -->\n"
	name := filepath.Join("..", "..", "docs", "use", "config.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has no place for the table", name)
	}
	want := "\n" + config.Markdown() + "\n"
	if *update {
		if err := os.WriteFile(name, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the table of %s is not that of the settings; 'go test -run TestDocumentHasTheSettings -update' writes it", name)
	}
}

// probes are values of settings. The first that a setting takes and that is not its default is its probe.
var probes = []string{"true", "7", "200", "2m", "1m", "128k", "16m", "3s", "500ms", "127.0.0.1:7", "required", "files", "shm", "x"}

// changedBy returns the fields that differ between two structs.
func changedBy(a, b any) (names []string) {
	for i := range reflect.TypeOf(a).NumField() {
		if f := reflect.TypeOf(a).Field(i); f.Type.Kind() != reflect.Func {
			if !reflect.DeepEqual(reflect.ValueOf(a).Field(i).Interface(), reflect.ValueOf(b).Field(i).Interface()) {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// Each field of server.Config and of server.Limits is changed by a setting, or stands in the table of those that are not.
func TestEachFieldOfTheServerIsASetting(t *testing.T) {
	a := new(app)
	a.root()
	all := a.providers()
	made := func(o config.Options) server.Config {
		t.Helper()
		c, err := (&serveOptions{Options: o}).serverConfig(all)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := made(a.settings)
	set := make(map[string][]string) // settings by the fields that they change
	for _, s := range config.Settings() {
		var next config.Options
		if !slices.ContainsFunc(probes, func(text string) bool {
			next = a.settings
			if err := s.Set(&next, text); err != nil || s.Key == "provider" && text != "shm" {
				return false
			}
			return s.Value(&next) != s.Value(&a.settings)
		}) {
			t.Errorf("%s takes no probe", s.Key)
			continue
		}
		c := made(next)
		for _, f := range slices.Concat(changedBy(first, c), changedBy(first.Limits, c.Limits)) {
			set[f] = append(set[f], s.Key)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[server.Config](), reflect.TypeFor[server.Limits]()} {
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			if _, without := fieldsWithoutSetting[name]; !without && len(set[name]) == 0 {
				t.Errorf("no setting changes the field %s of %s, and fieldsWithoutSetting has no reason", name, typ)
			} else if without && name != "Limits" && len(set[name]) > 0 {
				t.Errorf("%q change the field %s of %s, and fieldsWithoutSetting has it", set[name], name, typ)
			}
		}
	}
}

// The settings that change at SIGHUP are those that the table says.
func TestReloadChangesTheSettingsOfTheTable(t *testing.T) {
	var want, got []string
	for _, s := range config.Settings() {
		if s.Reload != "" {
			want = append(want, s.Key)
		}
	}
	for _, c := range changers {
		got = append(got, c.key)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("SIGHUP changes %q, and the table says %q", got, want)
	}
}

// Values of flags arrive in the limits of the server.
func TestFlagsReachTheLimits(t *testing.T) {
	for _, r := range []struct {
		args string
		want func(*server.Limits)
	}{
		{"", func(*server.Limits) {}},
		{
			"--smb-connections 1 --connections 2 --unauthenticated 3 --user-connections 5 --session-connections 4",
			func(l *server.Limits) {
				l.SMBConnections, l.Connections, l.Unauthenticated, l.ConnectionsPerUser, l.ConnectionsPerKey = 1, 2, 3, 5, 4
			},
		},
		{
			"--smb-memory 16m --read-memory 8m --write-memory 1m --request-rate 200 --auth-failures -1 --byte-rate 100m --byte-burst 1m --orphans 6",
			func(l *server.Limits) {
				l.SMBMemory, l.ReadBufferBytes, l.CreditBudget, l.RequestRate, l.AuthFailures = 16<<20, 8<<20, 16, 200, -1
				l.ByteRate, l.ByteBurst, l.Orphans = 100<<20, 1<<20, 6
			},
		},
		{"--max-write 128k", func(l *server.Limits) { l.MaxRecvBufferSize, l.CreditBudget = 128<<10, 4096 }},
		{"--busy-poll 0s", func(l *server.Limits) { l.BusyPoll = -1 }},
	} {
		o, err := optionsOf(t, strings.Fields(r.args)...)
		if err != nil {
			t.Errorf("%s: %v", r.args, err)
			continue
		}
		want := server.Limits{
			Unauthenticated: server.DefaultUnauthenticated, ConnectionsPerKey: 16, FilesPerConnection: 4096, Registrations: 65536,
			Orphans: server.DefaultOrphans, Credits: 32, MaxCredits: 128, CreditBudget: 8192, SMBMemory: 256 << 20, ReadBufferBytes: 64 << 20,
			MaxRDMAWindowSize: 512 << 10, MaxRecvBufferSize: 64 << 10, MaxByReferenceSize: 1 << 20, AuthFailures: 10,
			AuthTimeout: server.DefaultAuthTimeout, StallTimeout: server.DefaultStallTimeout, BusyPoll: server.DefaultBusyPoll,
		}
		r.want(&want)
		if got := limitsOf(&o.Options); got != want {
			t.Errorf("%s: %+v", r.args, got)
		}
	}
}

// Flags without a meaning are usage errors that name the flag.
func TestServeRefusesFlagsWithoutAMeaning(t *testing.T) {
	for args, want := range map[string]string{
		"--connections -1":                      `"--connections" flag: it must not be negative`,
		"--byte-rate fast":                      `"--byte-rate" flag: a size is`,
		"--smb-memory 4351k":                    `"--smb-memory" flag: it is at least 4352k`,
		"--write-memory 0":                      `"--write-memory" flag: a size is`,
		"--write-memory 60k":                    "--write-memory: it is at least max-write",
		"--read-memory 2047k":                   "--read-memory: it is at least 4 times max-read",
		"--byte-rate 1023k":                     `"--byte-rate" flag: it is at least 1m`,
		"--request-rate 99":                     `"--request-rate" flag: it is at least 100, or 0 (no limit)`,
		"--byte-burst 1m":                       "--byte-burst: it needs byte-rate",
		"--credits 1025":                        `"--credits" flag: it is at most 1024`,
		"--max-credits 8":                       "--credits: it is at most max-credits",
		"--max-write 5k":                        `"--max-write" flag: it is a multiple of 4k`,
		"--max-write-by-reference 4k":           "--max-write-by-reference: it is at least max-write",
		"--keep-alive 10ms":                     `"--keep-alive" flag: it is at least 1s, or 0 (no check)`,
		"--durable-timeout -1s":                 `"--durable-timeout" flag: a time is`,
		"--provider shm,shm":                    `"--provider" flag: shm is named twice`,
		"--provider none --rdma-listen [::1]:1": "--rdma-listen: no RDMA provider",
		"--provider none --immediate-data":      "--immediate-data: there is no RDMA",
		"--realm X":                             "--realm: it needs keytab",
		"--require-kerberos":                    "--require-kerberos: it needs keytab",
		"--state x --durable-timeout 0s":        "--state: with durable-timeout 0s",
		"--metrics 127.0.0.1:4450":              "--metrics: listen has the same address",
		"--json":                                "--json needs --check",
	} {
		if r := run(t, exitUsage, append(append([]string{"serve"}, strings.Fields(args)...), t.TempDir())...); !strings.Contains(r.err, want) {
			t.Errorf("%s: %s, want %q", args, r.err, want)
		}
	}
}

// A configuration file sets the settings that the command line does not have.
func TestConfigurationFileSetsFlags(t *testing.T) {
	const share = "users = \"users\"\n[[share]]\nname = \"data\"\npath = \".\"\nread = [\"*\"]\n"
	name := filepath.Join(t.TempDir(), "lwio.toml")
	settings := "listen = \"127.0.0.1:1\"\nprovider = [\"iwarp\"]\ndurable-timeout = \"90s\"\nkeep-alive = \"0s\"\norphans = 7\nsmb-memory = \"100m\"\n" +
		"read-only = true\nallow-uid = [\"12\", \"13\"]\n"
	if err := os.WriteFile(name, []byte(settings+share), 0o600); err != nil {
		t.Fatal(err)
	}
	got := func(args ...string) string {
		t.Helper()
		o, err := optionsOf(t, append(args, "--config", name)...)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, s := range config.Settings() {
			if slices.Contains([]string{"listen", "provider", "durable-timeout", "keep-alive", "orphans", "smb-memory", "read-only", "allow-uid"}, s.Key) {
				list = append(list, s.Value(&o.Options))
			}
		}
		return strings.Join(list, " ")
	}
	if text, want := got(), "127.0.0.1:1 iwarp true 1m30s 0s 7 100m 12,13"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
	if text, want := got("--durable-timeout", "1s", "--provider=shm", "--orphans=8", "--read-only=false"), "127.0.0.1:1 shm false 1s 0s 8 100m 12,13"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// Contradictions are reported at the line of the file that has the key, or at the flag.
func TestContradictionsNameTheirPlace(t *testing.T) {
	const rest = "users = \"users\"\n[[share]]\nname = \"data\"\npath = \".\"\nread = [\"*\"]\nencryption = \"required\"\n"
	name := filepath.Join(t.TempDir(), "lwio.toml")
	for _, c := range []struct {
		settings string
		args     []string
		want     string
	}{
		{"verbose = true\nbyte-burst = \"1m\"\n", nil, name + ":2: byte-burst: it needs byte-rate"},
		{"verbose = true\nmax-credits = 8\n", nil, name + ":2: max-credits: it is at most max-credits"},
		{"max-credits = 8\n", []string{"--credits", "9"}, name + ":1: max-credits: it is"},
		{"", []string{"--credits", "1000"}, "--credits: it is at most max-credits"},
		{"encryption = \"off\"\n", nil, name + ":3: share \"data\" requires encryption"},
		{"listen = \"192.0.2.1:1\"\nencryption = \"offered\"\n", nil, name + ":2: encryption: offered: an address that is not loopback needs encryption"},
		{"rdma-listen = [\"192.0.2.1:1\"]\n", []string{"--encryption=offered"}, name + ":1: rdma-listen: offered: an address that is not loopback"},
	} {
		if err := os.WriteFile(name, []byte(c.settings+rest), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := optionsOf(t, append(c.args, "--config", name)...); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q %q: %v, want %s", c.settings, c.args, err, c.want)
		}
	}
}

// A value that no flag takes is an error which names file, line and key.
func TestConfigurationFileWithInvalidFlag(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "lwio.toml")
	const text = "users = \"users\"\nallow-uid = [\"x\"]\n[[share]]\nname = \"data\"\npath = \".\"\nread = [\"*\"]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, exitFailure, "serve", "--config", name); !strings.Contains(r.err, name+":2: allow-uid: ") {
		t.Errorf("%q", r.err)
	}
}
