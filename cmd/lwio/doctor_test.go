package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"lwio"
	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// diagnose runs the doctor and reads its findings.
func diagnose(t *testing.T, code int, args ...string) (map[string]finding, result) {
	t.Helper()
	r := run(t, code, append([]string{"doctor", "--json"}, args...)...)
	var all []finding
	if err := json.Unmarshal([]byte(r.out), &all); err != nil {
		t.Fatalf("%v: %q", err, r.out)
	}
	found := make(map[string]finding)
	for _, f := range all {
		found[f.Transport] = f
	}
	return found, r
}

func TestDoctorOfTheHost(t *testing.T) {
	found, _ := diagnose(t, exitOK)
	for _, p := range lwio.DefaultProviders() {
		if f := found[p.Name()]; !f.Usable || f.Detail == "" || f.Next != "" {
			t.Errorf("%s: %+v", p.Name(), f)
		}
	}
	if f, ok := found["verbs"]; !ok || f.Usable || f.Detail == "" {
		t.Errorf("hardware: %+v", f)
	}
	if r := run(t, exitOK, "doctor"); !regexp.MustCompile(`(?m)^iwarp +works `).MatchString(r.out) {
		t.Errorf("for people: %q", r.out)
	}
}

// The doctor names the cipher of each transport whose data is encrypted.
func TestDoctorNamesCiphers(t *testing.T) {
	for _, encryption := range []string{"offered", "required"} {
		s := startServer(t, t.TempDir(), "--encryption", encryption)
		found, _ := diagnose(t, exitOK, s.url)
		text := run(t, exitOK, "doctor", s.url).out
		for name, f := range found {
			want := ""
			if encryption == "required" && name != "shm" {
				want = "AES-128-GCM"
			}
			if f.Encryption != want {
				t.Errorf("%s: %+v, want cipher %q", encryption, f, want)
			}
		}
		if named := strings.Contains(text, "encrypted with AES-128-GCM"); named != (encryption == "required") {
			t.Errorf("%s: %s", encryption, text)
		}
	}
}

// TestDoctorOfAServer examines servers with different providers.
func TestDoctorOfAServer(t *testing.T) {
	best := lwio.DefaultProviders()[0].Name()
	for _, c := range []struct {
		offers, query, used string
		code                int
		not                 string // a transport that does not work
	}{
		{offers: best, used: best, not: "other"},
		{offers: "iwarp", used: "iwarp", not: "shm"},
		{offers: "iwarp", query: "?provider=smb", used: "smb", not: "shm"},
		{offers: "iwarp", query: "?provider=shm", code: exitFailure, not: "shm"},
		{offers: "none", used: "smb", code: exitFailure, not: "iwarp"},
	} {
		t.Run(c.offers+c.query, func(t *testing.T) {
			if c.not == "shm" && runtime.GOOS != "linux" {
				skip.Test(t, "there is no shared memory on this system")
			}
			s := startServer(t, t.TempDir(), "--provider", c.offers)
			found, r := diagnose(t, c.code, s.url+c.query)
			for name, f := range found {
				if f.Used != (name == c.used) || f.Used && !f.Usable || !f.Usable && (f.Next == "" || f.Detail == "") {
					t.Errorf("%s: %+v", name, f)
				}
			}
			if f, ok := found[c.not]; ok && (f.Usable || !strings.Contains(f.Next, "--provider "+c.not)) {
				t.Errorf("%s: %+v", c.not, f)
			}
			if c.code != exitOK && !strings.Contains(r.err, "doctor lwio://") {
				t.Errorf("it said %q", r.err)
			}
			if strings.Contains(r.out+r.err, "level=") {
				t.Errorf("it logged: %s%s", r.out, r.err)
			}
		})
	}
}

// TestDoctorWithoutSMB examines an address without an SMB server.
func TestDoctorWithoutSMB(t *testing.T) {
	s := startServer(t, t.TempDir())
	for _, c := range []struct{ url, next string }{
		{"lwio://a:b@127.0.0.1:1/x", "nothing listens"},
		{strings.Replace(s.url, "@", "x@", 1), "user and password"},
		{s.url + "x", "share"},
	} {
		found, r := diagnose(t, exitFailure, c.url)
		if f := found["smb"]; len(found) != 1 || f.Usable || !strings.Contains(f.Next, c.next) || !strings.Contains(r.err, "nothing works without SMB") {
			t.Errorf("%s: %+v, %s", c.url, found, r.err)
		}
	}
	for _, args := range [][]string{{"doctor", "a", "b"}, {"doctor", "http://x"}} {
		run(t, exitUsage, args...)
	}
}

// TestTrialThatFails tries a provider that does not take the message, and one whose
// connection fails. The trial returns an error, does not hang, and leaks no resource.
func TestTrialThatFails(t *testing.T) {
	for name, act := range map[string]fault.Action{"fail": fault.Fail(rdma.StatusInsufficientResources), "cut": fault.Cut()} {
		for _, p := range lwio.DefaultProviders() {
			broken := fault.Wrap(p, &fault.Config{Fault: func(fault.Attempt) fault.Action { return act }})
			if detail, err := tryProvider(t.Context(), broken); err == nil {
				t.Errorf("%s, %s: %s", name, p.Name(), detail)
			}
		}
	}
}

// deaf is a provider that takes no connection.
type deaf struct{ rdma.Provider }

type deafAdapter struct{ rdma.Adapter }

type deafListener struct{ rdma.Listener }

func (d deaf) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := d.Provider.OpenAdapter(ctx, local)
	return deafAdapter{a}, err
}

func (a deafAdapter) CreateListener() (rdma.Listener, error) {
	l, err := a.Adapter.CreateListener()
	return deafListener{l}, err
}

func (deafListener) ConnectionRequest(context.Context, rdma.Connector) error { return errDeaf }

var errDeaf = errors.New("deaf")

// TestUnansweredTrialNamesTheCause returns the cause, and not a missing answer.
func TestUnansweredTrialNamesTheCause(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		if detail, err := tryProvider(t.Context(), deaf{p}); !errors.Is(err, errDeaf) {
			t.Errorf("%s: %s, %v", p.Name(), detail, err)
		}
	}
}

func TestExamineDevicesNamesTheDevices(t *testing.T) {
	dir := t.TempDir()
	if f := examineDevices(filepath.Join(dir, "none")); !strings.Contains(f.Detail, "no RDMA device") {
		t.Errorf("no directory: %+v", f)
	}
	if f := examineDevices(dir); !strings.Contains(f.Detail, "no RDMA device") {
		t.Errorf("an empty one: %+v", f)
	}
	if err := os.Mkdir(filepath.Join(dir, "mlx5_0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if f := examineDevices(dir); !strings.Contains(f.Detail, "mlx5_0") || f.Usable {
		t.Errorf("a device: %+v", f)
	}
}

// Every kind of failure has a next step that fits it.
func TestAdviceForEachFailure(t *testing.T) {
	for _, c := range []struct {
		transport string
		err       error
		want      string
	}{
		{"shm", lwio.ErrOtherHost, "one host"},
		{"shm", lwio.ErrNotOffered, "--provider shm"},
		{"shm", rdma.StatusConnectionRefused, "own user"},
		{"shm", syscall.EACCES, "same user"},
		{"shm", fmt.Errorf("%w: %w", rdma.StatusConnectionAborted, os.ErrPermission), "--allow-uid here"},
		{"iwarp", lwio.ErrSpoofed, "another program"},
		{"iwarp", syscall.ECONNREFUSED, "nothing listens"},
		{"iwarp", context.DeadlineExceeded, "firewall"},
		{"iwarp", rdma.StatusIOTimeout, "firewall"},
		{"iwarp", syscall.EHOSTUNREACH, "route"},
		{"iwarp", syscall.EMFILE, "open files"},
		{"iwarp", syscall.ENOMEM, "memory"},
		{"ib", rdma.StatusDeviceNotReady, "no device"},
		{"smb", &net.DNSError{}, "name"},
		{"smb", os.ErrPermission, "password"},
		{"smb", os.ErrNotExist, "share"},
		{"smb", errors.New("?"), "SMB 3 server"},
		{"iwarp", errors.New("?"), "log"},
	} {
		if got := advice(c.transport, fmt.Errorf("wrapped: %w", c.err)); !strings.Contains(got, c.want) {
			t.Errorf("%s, %v: %q, want %q", c.transport, c.err, got, c.want)
		}
	}
}

func TestWithQueryReplacesTheParameter(t *testing.T) {
	for in, want := range map[string]string{
		"lwio://h/s":                              "lwio://h/s?provider=smb",
		"lwio://h/s?provider=shm":                 "lwio://h/s?provider=smb",
		"lwio://h/s?completion=polling&provider=": "lwio://h/s?provider=smb&completion=polling",
	} {
		if got := withQuery(in, "provider", "smb"); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
